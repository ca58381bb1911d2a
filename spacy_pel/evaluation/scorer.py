"""`spacy_pel.link_scorer.v1`: the score columns that `spacy train` shows for a linker."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.training import Example

from .metrics import link_metrics
from .ranking import rank_gold


def make_link_scorer() -> Callable:
    """A scorer for the component: see `score_links`."""
    return score_links


def score_links(examples: Iterable[Example], *, linker: Any, **kwargs: Any) -> dict[str, float | None]:
    """Recall at 1 and at 64 over the gold mentions of the references that are in the KB, NIL threshold aside.

    RETURNS: `nel_recall_at_1` and `nel_recall_at_64`; None where no gold mention is in the KB, or there is no KB.
    """
    if linker.kb is None:
        return {"nel_recall_at_1": None, "nel_recall_at_64": None}
    ranked = rank_gold(linker, (example.reference for example in examples), k=64)
    metrics = link_metrics(ranked, linker.kb)
    return {f"nel_{key}": metrics[key] for key in ("recall_at_1", "recall_at_64")}
