"""`spacy pel tune-nil`: picks the NIL threshold on development mentions and stores it in the pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from ..errors import PelError
from .app import command
from .pipeline import load_linker


@command("tune-nil")
def tune_nil(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; changed in place")],
    dev: Annotated[Path, typer.Argument(help="A corpus with gold mentions, some of them NIL", metavar="DEV.spacy")],
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, or -1 for the CPU")] = -1,
) -> None:
    """Find the score below which a mention is best called NIL (F1 of the NIL class), and store it in the pipeline.

    Example: python -m spacy pel tune-nil linker corpus/dev.spacy
    """
    from ..corpora.docbin import read_docs
    from ..evaluation.nil import tune_threshold
    from ..evaluation.ranking import rank_gold
    from ..files import write_atomically

    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id)
    assert linker.kb is not None  # load_linker saw to it
    ranked = rank_gold(linker, read_docs(dev, nlp.vocab), k=1, progress=True)
    try:
        tuned = tune_threshold(ranked, linker.kb)
    except PelError as error:
        raise PelError(f"{dev}: {error}") from error
    linker.cfg["nil_threshold"] = tuned.threshold
    file = nlp.path / name / "cfg"
    write_atomically(file, json.dumps(linker.cfg, indent=2, allow_nan=False).encode())  # nothing else changed

    msg.table(
        [
            ("Threshold", f"{tuned.threshold:.6f}"),
            ("NIL precision", f"{tuned.precision:.4f}"),
            ("NIL recall", f"{tuned.recall:.4f}"),
            ("NIL F1", f"{tuned.f1:.4f}"),
            ("NIL mentions", f"{tuned.n_nil:,} of {tuned.n_mentions:,}"),
        ],
        aligns=("l", "r"),
    )
    msg.good(f"Wrote {file}")
    if linker.nil_threshold != "tuned":
        setting = "null" if linker.nil_threshold is None else linker.nil_threshold
        msg.warn(
            f"The stored threshold is not in force: [components.{name}] nil_threshold = {setting} wins; "
            'set it to "tuned" in config.cfg'
        )
