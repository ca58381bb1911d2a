"""`spacy pel tune-lexical`: fits what the names of entities count beside the similarity, and stores it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker, warnings_shown, write_tuned
from .printing import msg


@command("tune-lexical")
def tune_lexical(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; changed in place")],
    dev: Annotated[Path, typer.Argument(help="A corpus with gold mentions", metavar="DEV.spacy")],
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Fit the weights of names, and store them in the pipeline. It then searches its KB by vectors and by names, and
    ranks by the weighted mean of both. What `tune-nil` stored is dropped: run it again.

    Example: python -m spacy pel tune-lexical linker corpus/dev.spacy
    """
    from ..corpora.docbin import read_docs

    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    docs = list(read_docs(dev, nlp.vocab))
    try:
        with warnings_shown():
            weights, before, after, dropped = linker.tune_names(docs, progress=True)
    except PelError as error:
        raise PelError(f"{dev}: {error}") from error
    write_tuned(nlp, name, linker)
    if dropped is not None:
        msg.warn(f"Dropped the NIL threshold {dropped:.4f}, tuned for other scores: run `spacy pel tune-nil`")

    rows = [
        ("Weight of 3-grams", "0", f"{weights.ngram:.4f}"),
        ("Weight of an exact match", "0", f"{weights.exact:.4f}"),
    ]
    for measure in ("recall_at_1", "recall_at_5", "nil_auprc", "nil_base_rate"):
        if before[measure] is not None:
            rows.append((measure, f"{before[measure]:.4f}", f"{after[measure]:.4f}"))
    msg.table(rows, header=("", "similarity alone", "with names"), aligns=("l", "r", "r"), divider=True)
