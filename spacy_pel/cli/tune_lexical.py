"""`spacy pel tune-lexical`: fits what the names of entities count beside the similarity, and stores it."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import command
from .pipeline import CODE, GPU_ID, load_linker, warnings_shown, write_tuned
from .printing import msg
from .tuning import DEV, SEED, TEXTS, to_tune_on

MEASURES = ("recall_at_1", "recall_at_5", "nil_auprc", "nil_base_rate")


@command("tune-lexical")
def tune_lexical(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; changed in place")],
    dev: DEV = None,
    texts: TEXTS = None,
    seed: SEED = 0,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Fit the weights of names, and store them in the pipeline. It searches its KB by vectors and by names, and ranks
    by the weighted mean of both. What `tune-nil` stored is dropped: run it again.

    Without DEV they are fitted to names of the KB. Of a fifth of them the entity is held out, of half of the others the
    name, so that only other names can find it. Few mentions hardly move the weights from the defaults.

    Example: python -m spacy pel tune-lexical linker corpus/dev.spacy

    Example: python -m spacy pel tune-lexical linker --texts notes.txt
    """
    from ..files.parts import read_state
    from ..pipeline.saving import learnt_state

    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    before = read_state(nlp.path / name)
    with to_tune_on(nlp, dev, texts) as given, warnings_shown():
        tuned = linker.tune_names(**given, seed=seed, progress=True)
    write_tuned(nlp, name, learnt_state(linker), before)
    if tuned.dropped is not None:
        msg.warn(f"Dropped the NIL threshold {tuned.dropped:.4f}, tuned for other scores: run `spacy pel tune-nil`")
    if tuned.too_few is not None:
        msg.warn(tuned.too_few)

    rows: list[tuple[str, ...]] = [
        ("Weight of 3-grams", "0", f"{tuned.default.ngram:.4f}", f"{tuned.weights.ngram:.4f}"),
        ("Weight of an exact match", "0", f"{tuned.default.exact:.4f}", f"{tuned.weights.exact:.4f}"),
    ]
    shown = [key for key in MEASURES if tuned.after[key] is not None]
    rows += [(key, *(f"{one[key]:.4f}" for one in (tuned.before, tuned.by_default, tuned.after))) for key in shown]
    msg.table(rows, header=("", "similarity alone", "by default", "fitted"), aligns=("l", "r", "r", "r"), divider=True)
    if tuned.recall is not None:
        drawn = "names" if dev is None else "documents"
        msg.text(f"recall_at_1 fitted, nine in ten draws of these {drawn}: {tuned.recall.ends}")
