"""`spacy pel build-kb`: entity records → KB folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from wasabi import msg

from ..errors import PelError
from .app import command

if TYPE_CHECKING:
    from ..kb.entity_store import Entity


@command("build-kb")
def build_kb(
    source: Annotated[Path, typer.Argument(help="File with the entity records")],
    out: Annotated[Path, typer.Argument(help="KB folder to write")],
    format: Annotated[str, typer.Option("--format", help="Format of SOURCE: jsonl or csv (.tsv: with tabs)")] = "jsonl",
    source_note: Annotated[str, typer.Option("--source", help="Note: where the records come from")] = "",
    release: Annotated[str, typer.Option("--release", help="Note: their release")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Note: their licence")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the KB at OUT")] = False,
) -> None:
    """Build a KB folder from entity records. It has no vectors before `spacy pel index`.

    Example: python -m spacy pel build-kb mesh.jsonl kb --source MeSH --release 2025
    """
    import time

    from ..kb.knowledge_base import KnowledgeBase
    from ..kb.readers import READERS

    if format not in READERS:
        raise PelError(f'--format: "{format}" is not known; use {" or ".join(sorted(READERS))}.')
    start = time.perf_counter()
    replaces = out.exists()
    kb = KnowledgeBase.create(
        out,
        _with_progress(READERS[format](source)),
        source=source_note,
        release=release,
        licence=licence,
        overwrite=force,
    )
    if replaces:
        msg.info("Replaced the old KB: renamed it aside, put the new one in its place, removed it")
    counts = {what: f"{count:,}" for what, count in kb.meta["counts"].items()}
    msg.good(f"Built the KB {out}")
    msg.table(counts | {"size": f"{kb.size_bytes / 1e6:.1f} MB", "seconds": f"{time.perf_counter() - start:.1f}"})


def _with_progress(entities: Iterable[Entity]) -> Iterator[Entity]:
    """A bar that appears with the first entity, not before a refusal."""
    from tqdm import tqdm

    yield from tqdm(entities, desc="Entities", unit=" entities")
