"""`spacy pel build-kb`: entity records → KB folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError
from .app import command
from .pipeline import warnings_shown
from .printing import msg
from .vocabulary import ReadAs, Several, print_skipped, split_values, takes_vocabulary, with_progress

if TYPE_CHECKING:
    from ..kb.readers.records import Records


@command("build-kb")
@takes_vocabulary
def build_kb(
    source: Annotated[Path, typer.Argument(help="File or folder with the entity records, or a KB that is built")],
    out: Annotated[Path | None, typer.Argument(help="KB folder to write")] = None,
    source_note: Annotated[str, typer.Option("--source", help="Note: where the records come from")] = "",
    release: Annotated[str, typer.Option("--release", help="Note: their release")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Note: their licence")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the KB at OUT")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and count: write nothing")] = False,
    hold_out: Annotated[float, typer.Option(help="Leave about this share of the entities out, to be NIL")] = 0.0,
    hold_out_types: Annotated[Several, typer.Option(help="Leave entities of these types out (T041,T058)")] = None,
    seed: Annotated[int, typer.Option(help="Seed that draws the share that is held out")] = 0,
    *,
    read_as: ReadAs,
) -> None:
    """Build a KB folder from entity records. It has no vectors before `spacy pel index`.

    SOURCE is a file, plain or .gz; for umls the META folder of a release, for mesh also a folder with NLM's desc*.xml
    and supp*.xml, for zeshel also a folder of worlds. Options that take several values take them with commas or
    repeated, and one that has a comma within in double quotes. A record that is not right is left out with a warning;
    more than 1 % of them are an error, and a broken line of an OBO file costs that line only.

    Example: python -m spacy pel build-kb mesh.jsonl kb --source MeSH --release 2025

    Example: python -m spacy pel build-kb 2025AA/META kb --format umls --preset st21pv --dry-run

    Example: python -m spacy pel build-kb mesh.jsonl kb --hold-out 0.2
    """
    import time

    from ..kb.hold_out import HoldOut
    from ..kb.knowledge_base import KnowledgeBase

    if out is None and not dry_run:
        raise PelError("OUT: name the KB folder to write, or only count with --dry-run.")
    left_out = HoldOut(hold_out, frozenset(split_values(hold_out_types)), seed)
    notes = {"source": source_note, "release": release, "licence": licence}
    start = time.perf_counter()
    with warnings_shown():
        records = read_as.records(source)
        if left_out:
            records.entities = left_out.kept(records.entities, records.skipped)
        if out is None or dry_run:
            _print_dry_run(records)
            return
        replaces = out.exists()
        kb = KnowledgeBase.create(
            out,
            with_progress(records),
            **{key: given or records.notes.get(key, "") for key, given in notes.items()},
            retired=records.retired,
            overwrite=force,
        )
    if replaces:
        msg.info("Replaced the old KB, which stayed until the new one was whole")
    print_skipped(records.skipped)
    if left_out and not records.skipped["entities held out"]:
        msg.warn("No entity was held out: a share is drawn by the ids, and the KB is small or has none of those types")
    msg.good(f"Built the KB {out}")
    counts = {what: f"{count:,}" for what, count in kb.meta["counts"].items()}
    msg.table(counts | {"size": f"{kb.size_bytes / 1e6:.1f} MB", "seconds": f"{time.perf_counter() - start:.1f}"})


def _print_dry_run(records: Records) -> None:
    """Counts, and tables of the entities by source and by type."""
    from ..kb.records.counts import Counts

    counts = Counts()
    for _ in counts.count(with_progress(records)):
        pass
    totals = {what: f"{count:,}" for what, count in counts.totals().items()}
    if retired := sum(1 for _ in records.retired):
        totals["retired"] = f"at most {retired:,}"  # only those whose successor is in the KB are kept
    print_skipped(records.skipped)
    msg.table(totals)
    for header, found in (("Source", counts.sources), ("Type", counts.types)):
        rows = [(key, counts.type_names.get(key, ""), f"{count:,}") for key, count in found.most_common()]
        if rows:
            msg.table(rows, header=(header, "", "Entities"), aligns=("l", "l", "r"), divider=True, max_col=60)
    msg.info("Dry run: nothing was written")
