"""`spacy pel tune-nil`: picks the NIL threshold on development mentions and stores it in the pipeline."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import command
from .pipeline import CODE, GPU_ID, load_linker, warnings_shown, write_tuned
from .printing import msg
from .tuning import DEV, SEED, TEXTS, to_tune_on

TOO_FEW, OUT_OF_REACH = "too few mentions to tell", "too few draws of them reach the target"
HELD = "the best score", "the probability that the KB has it"


@command("tune-nil")
def tune_nil(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; changed in place")],
    dev: DEV = None,
    texts: TEXTS = None,
    seed: SEED = 0,
    target: Annotated[
        str, typer.Option(help="What NIL must reach, such as precision=0.9 or recall=0.8 [default: the best F1]")
    ] = "",
    by_score: Annotated[
        bool, typer.Option("--by-score", help="Let the best score decide alone; the threshold is in its units")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-F", help="Keep a threshold of too few mentions that costs right answers")
    ] = False,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Fit the NIL threshold and the probability that a link is right (`ent._.kb_prob`), and store both in the pipeline.
    The threshold is one of the probability that the KB has the entity, or of the best score, whichever is better on
    documents that it was not fitted to. A mention below it is NIL.

    Some mentions of DEV must be NIL. If these are too few, a threshold that leaves fewer mentions right than none does
    is not kept, unless it reaches a --target. Without DEV it is fitted to names of the KB: the entities of a fifth of
    them are held out.

    Example: python -m spacy pel tune-nil linker corpus/dev.spacy

    Example: python -m spacy pel tune-nil linker corpus/dev.spacy --target precision=0.9

    Example: python -m spacy pel tune-nil linker
    """
    from ..files.parts import read_state
    from ..pipeline.saving import learnt_state
    from ..tuning.nil import Target

    wanted = Target.parse(target) if target else None
    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    before = read_state(nlp.path / name)
    with to_tune_on(nlp, dev, texts) as given, warnings_shown():
        found = linker.tune_nil(**given, target=wanted, by_score=by_score, seed=seed, progress=True)
    tuned = found.nil
    if found.too_few is not None:
        msg.warn(found.too_few)
    if force or target or found.too_few is None or tuned.right >= tuned.right_without:
        write_tuned(nlp, name, learnt_state(linker), before)
    else:
        msg.warn(
            f"{pipeline} stays as it is: with this threshold {tuned.right:.0%} of these mentions are right, without "
            f"one {tuned.right_without:.0%}. Keep it with --force."
        )

    nothing = OUT_OF_REACH if target and found.too_few is None else TOO_FEW
    elsewhere, alone = (nothing if one is None else str(one) for one in (found.elsewhere, found.by_score))
    others = "names" if dev is None else "documents"
    msg.table(
        [
            ("Threshold", f"{tuned.threshold:.6f} of {HELD[found.decision is not None]}"),
            ("NIL precision", f"{tuned.precision:.4f}"),
            ("NIL recall", f"{tuned.recall:.4f}"),
            ("NIL F1", f"{tuned.f1:.4f}"),
            (f"NIL F1 on other {others}", elsewhere),
            *([(f"NIL F1 on other {others} by the score alone", alone)] if found.decision is not None else ()),
            ("NIL mentions", f"{tuned.n_nil:,} of {tuned.n_mentions:,}"),
            ("In the KB and linked right", f"{tuned.linked_right:.4f} (without a threshold {tuned.recall_at_1:.4f})"),
            ("Calibration error", f"{found.link_ece:.4f}"),
        ],
        aligns=("l", "r"),
    )
