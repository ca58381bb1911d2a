"""`spacy pel tune-ranker`: fits what a ranker does with its scores to development mentions, and stores it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import command
from .pipeline import CODE, GPU_ID, load_linker, write_tuned
from .printing import msg
from .tuning import to_tune_on

LINKER_DECIDES = "the linker decides"


@command("tune-ranker")
def tune_ranker(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker, its KB, and a pel_ranker")],
    dev: Annotated[Path, typer.Argument(help="A corpus with gold mentions, .spacy or .jsonl", metavar="DEV")],
    cost: Annotated[
        bool, typer.Option("--cost", help="Print recall@1 by the share of the mentions that are reranked")
    ] = False,
    gain: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Rerank as few mentions as give this share of the gain in recall@1, such as 0.95 [default: all]",
        ),
    ] = None,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Fit what the linker's scores count beside those of the ranker, the probability that a link is right
    (`ent._.kb_prob`) and the NIL threshold, and store all of them in the pipeline. The linker goes on to decide on NIL
    with fewer than 20 NIL mentions, and where it does so better on documents that nothing was fitted to.

    `--cost` and `--gain` need the linker's own probabilities: run `tune-nil` before.

    Example: python -m spacy pel tune-ranker ranker corpus/dev.spacy

    Example: python -m spacy pel tune-ranker ranker corpus/dev.spacy --cost --gain 0.95
    """
    from ..components import require_ranker
    from ..files.parts import read_state

    nlp, _, _ = load_linker(pipeline, gpu_id=gpu_id, code=code)
    name, ranker = require_ranker(nlp, pipeline)
    before = read_state(nlp.path / name)
    with to_tune_on(nlp, dev, None) as given:
        tuned = ranker.tune(given["docs"], gain=gain, progress=True)
    write_tuned(nlp, name, ranker.tuned.to_dict(), before)
    if tuned.too_few is not None:
        msg.warn(f"{tuned.too_few} {LINKER_DECIDES.capitalize()} on NIL.")
    if tuned.after < tuned.before:
        msg.warn(
            f"The ranker makes recall@1 worse here, {tuned.after:.4f} after {tuned.before:.4f} of the linker: train it "
            "for longer, or leave it out."
        )
    if cost and not tuned.costs:
        msg.warn("The linker has no probabilities to say what is gained by which mentions: run `tune-nil` first.")
    if cost and tuned.costs:
        rows = [(f"{one.share:.3f}", f"{one.below:.4f}", f"{one.recall_at_1:.4f}") for one in tuned.costs]
        msg.table(rows, header=("Ranked anew", "Probability under", "recall_at_1"), aligns=("r", "r", "r"))
    nil = tuned.nil
    msg.table(
        [
            ("recall_at_1 of the linker", f"{tuned.before:.4f}"),
            ("recall_at_1 by the ranker alone", f"{tuned.alone:.4f}"),
            ("recall_at_1 by both", f"{tuned.after:.4f}"),
            ("Weight of the linker's score", f"{tuned.weight:.4f}"),
            ("NIL threshold", LINKER_DECIDES if nil is None else f"{nil.threshold:.6f}"),
            ("NIL F1", "-" if nil is None else f"{nil.f1:.4f}"),
            ("NIL F1 on other documents by the ranker", "-" if tuned.elsewhere is None else str(tuned.elsewhere)),
            ("NIL F1 on other documents by the linker", "-" if tuned.by_linker is None else str(tuned.by_linker)),
            ("Calibration error", f"{tuned.link_ece:.4f}"),
            ("Ranked anew", "all" if tuned.below is None else f"those under a probability of {tuned.below:.4f}"),
        ],
        aligns=("l", "r"),
    )
