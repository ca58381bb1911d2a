"""The NIL threshold on development mentions: the best F1 of the NIL class, or a wanted precision or recall."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from ..mentions.ranked import RankedMention, held_alike, is_nil


class NilThreshold(NamedTuple):
    """A threshold, in score units, and what it reaches on the mentions it was tuned on: a score below it means NIL.

    Attributes:
        threshold: The threshold.
        precision: Of the NIL class.
        recall: Of the NIL class.
        f1: Of the NIL class.
        n_mentions: How many mentions it was tuned on.
        n_nil: How many of them are NIL.
        recall_at_1: Over the mentions in the KB, as if nothing were NIL.
        linked_right: What is left of it: the share of them that are linked to a correct entity and not called NIL.
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    n_mentions: int
    n_nil: int
    recall_at_1: float
    linked_right: float

    @property
    def right(self) -> float:
        """The share of all mentions that are right, NIL being one more answer."""
        return (self.linked_right * (self.n_mentions - self.n_nil) + self.recall * self.n_nil) / self.n_mentions

    @property
    def right_without(self) -> float:
        """That share without a threshold, when nothing is NIL."""
        return self.recall_at_1 * (self.n_mentions - self.n_nil) / self.n_mentions


class Target(NamedTuple):
    """What the NIL class has to reach: `measure` is "precision" or "recall"."""

    measure: str
    value: float

    @classmethod
    def of(cls, value: Any) -> Target | None:
        """Take a target, a text for `parse`, or None.

        Raises:
            PelError: For anything else.
        """
        if value is None or isinstance(value, str):
            return None if value is None else cls.parse(value)
        if not isinstance(value, cls):
            raise PelError(f'target = {value!r}; give a text, such as target="precision={value}", or None.')
        return cls.parse(f"{value.measure}={value.value}")

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read "precision=0.9" or "recall=0.8".

        Raises:
            PelError: For anything else.
        """
        measure, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if measure not in ("precision", "recall") or not 0 < value <= 1:
            raise PelError(f'target: "{text}" is neither precision=P nor recall=R with P, R over 0 and up to 1.')
        return cls(measure, value)


def tune_threshold(
    ranked: Sequence[RankedMention], kb_ids: Container[str], target: Target | None = None
) -> NilThreshold:
    """Try every way in which a threshold can part the annotated mentions, and keep the best one.

    With the mentions sorted by their scores, or by what else the threshold is held against, calling the lowest i of
    them NIL gives precision TP_i / i, recall TP_i / n_nil and F1 = 2 TP_i / (i + n_nil); only an i between two
    different scores can be had. The threshold lies halfway between those two. Of equally good ones the lowest is taken:
    it links more. O(n log n).

    Args:
        ranked: Gold mentions with their candidates.
        kb_ids: The ids of the KB.
        target: Keep what reaches it with the best other measure of the two; None to keep the best F1.

    Raises:
        PelError: Unless there are both NIL mentions and mentions in the KB; for a target out of reach, naming the
            nearest that can be had.
    """
    outcomes = Outcomes.of(ranked, kb_ids)
    cuts = _cuts(outcomes)
    n_mentions, n_nil = len(cuts.scores), cuts.n_nil
    if not 0 < n_nil < n_mentions:
        raise PelError(
            f"of {n_mentions} mentions {n_nil} are NIL: a threshold can only be tuned on mentions of which "
            "some are in the KB and some are not (`build-kb --hold-out 0.2` makes a KB that lacks some)"
        )
    best = _best_cut(cuts.measures, target)
    return NilThreshold(
        threshold=_between(cuts.scores, int(cuts.n_under[best])),
        **{measure: float(values[best]) for measure, values in cuts.measures.items()},
        n_mentions=n_mentions,
        n_nil=n_nil,
        recall_at_1=cuts.recall_at_1,
        linked_right=float(cuts.linked_right[best]),
    )


def nil_curve(ranked: Sequence[RankedMention], kb_ids: Container[str], most: int = 200) -> list[dict[str, float]]:
    """What the thresholds reach, lowest first: `threshold`, `precision` and `recall` of the NIL class, `linked_right`
    as in `NilThreshold`, `all_recall_at_1` and `all_recall_at_64` as in `link_metrics`. Where more than `most` can be
    told apart, that many, evenly spread over their order. Empty unless there are both NIL mentions and mentions in the
    KB, and what thresholds are held against is of one kind (see `held_alike`)."""
    if not held_alike(ranked):
        return []
    cuts = _cuts(Outcomes.of(ranked, kb_ids))
    if not 0 < cuts.n_nil < len(cuts.scores):
        return []
    shown = np.unique(np.linspace(0, len(cuts.n_under) - 1, most).round().astype(int))
    return [
        {
            "threshold": _between(cuts.scores, int(cuts.n_under[i])),
            "precision": float(cuts.measures["precision"][i]),
            "recall": float(cuts.measures["recall"][i]),
            "linked_right": float(cuts.linked_right[i]),
            **{f"all_recall_at_{k}": float(values[i]) for k, values in cuts.all_recall.items()},
        }
        for i in shown
    ]


def average_precision(positive: np.ndarray, scores: np.ndarray) -> float | None:
    """Σ (R_i - R_{i-1}) P_i over the distinct scores, highest first: equal scores are one step, as in scikit-learn.
    Infinite scores are fine.

    Args:
        positive: (n,) bool.
        scores: (n,) float.

    Returns:
        None without a positive.
    """
    if not positive.any():
        return None
    order = np.argsort(-scores, kind="stable")
    is_last_of_tie = np.append(scores[order][1:] != scores[order][:-1], True)
    hits = np.cumsum(positive[order])[is_last_of_tie]
    predicted = np.flatnonzero(is_last_of_tie) + 1
    return float(np.sum(np.diff(hits, prepend=0) * hits / predicted) / hits[-1])


class Outcomes(NamedTuple):
    """What became of n annotated mentions.

    Attributes:
        scores: (n,) what a threshold is held against.
        nil: (n,) bool, whether the KB holds none of their ids.
        rank: (n,) of the first candidate that is correct; inf where none is, and of NIL mentions.
    """

    scores: np.ndarray
    nil: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, ranked: Sequence[RankedMention], kb_ids: Container[str]) -> Outcomes:
        """Those of `ranked`, in their order, without the unannotated ones."""
        annotated = [mention for mention in ranked if mention.gold]
        nil = is_nil(annotated, kb_ids)
        scores = np.array([mention.held for mention in annotated], dtype=np.float64)
        rank = np.array([mention.rank for mention in annotated], dtype=np.float64)
        return cls(scores, nil, np.where(nil, np.inf, rank))

    def take(self, places: np.ndarray) -> Outcomes:
        """Those at `places` (m,)."""
        return Outcomes(self.scores[places], self.nil[places], self.rank[places])


def threshold_of(outcomes: Outcomes, target: Target | None) -> float:
    """The threshold of `tune_threshold` alone.

    Raises:
        PelError: For a target out of reach.
    """
    cuts = _cuts(outcomes)
    return _between(cuts.scores, int(cuts.n_under[_best_cut(cuts.measures, target)]))


class _Cuts(NamedTuple):
    """Every way in which a threshold can part the annotated mentions: `n_under` (c,) mentions have the lowest of the
    sorted top `scores` (n,), with these `measures` (c,) of the NIL class, and `all_recall` (c,) at 1 and 64."""

    scores: np.ndarray
    n_under: np.ndarray
    n_nil: int
    measures: dict[str, np.ndarray]
    linked_right: np.ndarray
    recall_at_1: float
    all_recall: dict[int, np.ndarray]


def _cuts(outcomes: Outcomes) -> _Cuts:
    order = np.argsort(outcomes.scores, kind="stable")
    scores, nil, rank = outcomes.take(order)
    n_nil, n_in_kb = int(nil.sum()), max(int((~nil).sum()), 1)
    n_under = np.append(np.flatnonzero(scores[:-1] < scores[1:]) + 1, len(scores))[: len(scores)]
    hits = np.cumsum(nil)[n_under - 1]
    linked = {k: (rank <= k).sum() - np.cumsum(rank <= k)[n_under - 1] for k in (1, 64)}
    return _Cuts(
        scores=scores,
        n_under=n_under,
        n_nil=n_nil,
        measures={"precision": hits / n_under, "recall": hits / max(n_nil, 1), "f1": 2 * hits / (n_under + n_nil)},
        linked_right=linked[1] / n_in_kb,
        recall_at_1=float((rank <= 1).sum() / n_in_kb),
        all_recall={k: (hits + right) / max(len(scores), 1) for k, right in linked.items()},
    )


def _best_cut(measures: dict[str, np.ndarray], target: Target | None) -> int:
    if target is None:
        return int(np.argmax(measures["f1"]))
    reached = measures[target.measure]
    other = measures["recall" if target.measure == "precision" else "precision"]
    if (reached < target.value).all():
        nearest = int(np.argmax(reached))
        raise PelError(
            f"no threshold gives the NIL class a {target.measure} of {target.value:g}; the nearest is "
            f"{target.measure}={np.floor(1e4 * reached[nearest]) / 1e4:g}"
        )
    return int(np.argmax(np.where(reached >= target.value, other, -1.0)))


def _between(scores: np.ndarray, n_under: int) -> float:
    """A finite value above the first `n_under` of the sorted scores and not above the rest."""
    low = scores[n_under - 1]
    if n_under == len(scores):
        return float(np.nextafter(np.float32(low), np.float32(np.inf)))  # above it in single precision too
    high = scores[n_under]
    middle = low + (high - low) / 2 if np.isfinite(low) else high
    return float(middle if low < middle else high)
