"""`spacy pel distil`: what a ranker says of the mentions of a corpus, for a linker to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import command
from .out_file import check_out
from .pipeline import CODE, GPU_ID, load_linker
from .printing import msg
from .tuning import to_tune_on


@command("distil")
def distil(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker, its KB, and a pel_ranker")],
    corpus: Annotated[Path, typer.Argument(help="The training corpus with gold mentions, .spacy or .jsonl")],
    output: Annotated[Path, typer.Argument(help="JSON lines to write, for spacy_pel.Distillation.v1")],
    top_n: Annotated[int | None, typer.Option(min=2, help="Candidates of a mention [default: as the ranker]")] = None,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Write what the ranker scores the candidates of each gold mention, so that a linker can be trained towards it.

    Example: python -m spacy pel distil training/ranker/model-last corpus/train.spacy corpus/targets.jsonl
    """
    from ..components import require_ranker
    from ..pipeline.teaching import write_targets

    check_out(output, corpus, "the corpus", force=True)
    nlp, _, _ = load_linker(pipeline, gpu_id=gpu_id, code=code)
    _, ranker = require_ranker(nlp, pipeline)
    if top_n is not None:
        ranker.top_n = top_n
    with to_tune_on(nlp, corpus, None) as given:
        written, of = write_targets(ranker, given["docs"], output, progress=True)
    msg.good(f"Wrote what the ranker scores of {written:,} mentions, of {of:,} with an entity in the KB: {output}")
