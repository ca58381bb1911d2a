"""`spacy pel index`: encode a KB with a pipeline's entity tower and write the pipeline with its KB."""

from __future__ import annotations

from pathlib import Path

import typer
from wasabi import msg

from .app import command


@command("index")
def index(
    pipeline: str = typer.Argument(..., help="A trained pipeline with a pel_linker: a folder or an installed package"),
    kb: Path = typer.Argument(..., help="A KB folder that `build-kb` wrote; it is left as it is"),
    out: Path = typer.Argument(..., help="The folder to write the pipeline to"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU to use, or -1 for the CPU"),
    force: bool = typer.Option(False, "--force", "-F", help="Replace OUT if it is there"),
) -> None:
    """Encode every entity of KB with the entity tower of PIPELINE and write the pipeline, with its KB, to OUT.

    Example: python -m spacy pel index training/model-last kb linker
    """
    from spacy.cli._util import setup_gpu

    from ..indexing import index_pipeline

    setup_gpu(gpu_id, silent=True)
    n_entities, seconds = index_pipeline(pipeline, kb, out, replace=force)
    msg.good(f"{out}: {n_entities:,} entities encoded in {seconds:.0f} s ({n_entities / seconds:,.0f} a second)")
