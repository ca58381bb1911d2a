"""The NIL threshold with the best F1 of the NIL class on development mentions."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from .metrics import RankedMention, is_nil


class NilThreshold(NamedTuple):
    """A threshold, in score units, and what it reaches on the mentions it was tuned on: a score below it means NIL."""

    threshold: float
    precision: float
    recall: float
    f1: float
    n_mentions: int
    n_nil: int


def tune_threshold(ranked: Sequence[RankedMention], kb_ids: Container[str]) -> NilThreshold:
    """Try every way in which a threshold can part the annotated mentions, and keep the best F1 of the NIL class.

    With the mentions sorted by top score, calling the lowest i of them NIL gives F1 = 2 TP_i / (i + n_nil); only an i
    between two different scores can be had. The threshold lies halfway between those two. Of equally good ones the
    lowest is taken: it links more. O(n log n).

    RAISES: `PelError` unless there are both NIL mentions and mentions in the KB.
    """
    annotated = [mention for mention in ranked if mention.gold]
    nil = is_nil(annotated, kb_ids)
    n_nil = int(nil.sum())
    if not 0 < n_nil < len(annotated):
        raise PelError(
            f"of {len(annotated)} annotated mentions {n_nil} are NIL: a threshold can only be tuned on mentions of "
            "which some are in the KB and some are not"
        )
    scores = np.array([mention.top_score for mention in annotated], dtype=np.float64)
    order = np.argsort(scores, kind="stable")
    scores, nil = scores[order], nil[order]
    cuts = np.append(np.flatnonzero(scores[:-1] < scores[1:]) + 1, len(scores))
    hits = np.cumsum(nil)[cuts - 1]
    f1 = 2 * hits / (cuts + n_nil)
    best = int(np.argmax(f1))
    n_under, n_hits = int(cuts[best]), int(hits[best])
    return NilThreshold(
        threshold=_between(scores, n_under),
        precision=n_hits / n_under,
        recall=n_hits / n_nil,
        f1=float(f1[best]),
        n_mentions=len(annotated),
        n_nil=n_nil,
    )


def _between(scores: np.ndarray, n_under: int) -> float:
    """A finite value above the first `n_under` of the sorted scores and not above the rest."""
    low = scores[n_under - 1]
    if n_under == len(scores):
        return float(np.nextafter(np.float32(low), np.float32(np.inf)))  # above it in single precision too
    high = scores[n_under]
    middle = low + (high - low) / 2 if np.isfinite(low) else high
    return float(middle if low < middle else high)
