"""`spacy pel tune-nil`: picks the NIL threshold on development mentions and stores it in the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker, warnings_shown, write_tuned
from .printing import msg


@command("tune-nil")
def tune_nil(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; changed in place")],
    dev: Annotated[Path, typer.Argument(help="A corpus with gold mentions, some of them NIL", metavar="DEV.spacy")],
    target: Annotated[
        str, typer.Option(help="What NIL must reach, such as precision=0.9 or recall=0.8 [default: the best F1]")
    ] = "",
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Fit the NIL threshold, calibrate scores to probabilities (`ent._.kb_prob`), and store both in the pipeline. A
    mention whose best score is below the threshold is NIL.

    Example: python -m spacy pel tune-nil linker corpus/dev.spacy

    Example: python -m spacy pel tune-nil linker corpus/dev.spacy --target precision=0.9
    """
    from ..corpora.docbin import read_docs
    from ..tuning.nil import Target

    wanted = Target.parse(target) if target else None
    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    docs = list(read_docs(dev, nlp.vocab))
    try:
        with warnings_shown():
            tuned, _, link_ece = linker.tune_nil(docs, target=wanted, progress=True)
    except PelError as error:
        raise PelError(f"{dev}: {error}") from error
    write_tuned(nlp, name, linker)

    msg.table(
        [
            ("Threshold", f"{tuned.threshold:.6f}"),
            ("NIL precision", f"{tuned.precision:.4f}"),
            ("NIL recall", f"{tuned.recall:.4f}"),
            ("NIL F1", f"{tuned.f1:.4f}"),
            ("NIL mentions", f"{tuned.n_nil:,} of {tuned.n_mentions:,}"),
            ("In the KB and linked right", f"{tuned.linked_right:.4f} (without a threshold {tuned.recall_at_1:.4f})"),
            ("Calibration error", f"{link_ece:.4f}"),
        ],
        aligns=("l", "r"),
    )
