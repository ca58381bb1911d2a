"""Scores as probabilities: the logistic curve that says how often a link with that score was right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from ..mentions.ranked import RankedMention
from .newton import fit_logistic_weights, log_odds, platt_targets, spreads

RIDGE = 1e-9  # none, but that the curve can be solved for where all scores are one
N_BINS = 10  # of probabilities


class Calibration(NamedTuple):
    """P(right | score) = 1 / (1 + exp(-(slope · score + intercept))), rising with the score: slope ≥ 0."""

    slope: float
    intercept: float

    def probability(self, score: float) -> float:
        """Of one score; -inf, that of a mention without candidates, gives 0."""
        if score == -math.inf:
            return 0.0
        return 1.0 / (1.0 + math.exp(-max(-700.0, self.slope * score + self.intercept)))


def fit(scores: np.ndarray, right: np.ndarray) -> Calibration:
    """The curve of greatest likelihood for top `scores` (n,) and whether each link was `right` (n,) bool, with Platt's
    targets (1999). Infinite scores are left out.

    Raises:
        PelError: Without a finite score.
    """
    finite = np.isfinite(scores)
    scores, right = scores[finite].astype(np.float64), right[finite]
    if not len(scores):
        raise PelError("no mention has a candidate: there is nothing to fit probabilities to")
    targets = platt_targets(right)
    middle, spread = scores.mean(), spreads(scores)
    inputs = np.stack([(scores - middle) / spread, np.ones_like(scores)], axis=1)
    weights = fit_logistic_weights(inputs, targets, np.full(2, RIDGE))
    if weights[0] <= 0:  # higher scores are not right more often: nothing but their share can be said
        return Calibration(0.0, log_odds(targets))
    return Calibration(float(weights[0] / spread), float(weights[1] - weights[0] * middle / spread))


def fit_ranked(ranked: Sequence[RankedMention]) -> Calibration:
    """`fit` to the first candidates of the annotated mentions: right where that is a correct entity. A NIL mention has
    none.

    Raises:
        PelError: Without a mention that has candidates.
    """
    return fit(*_top_scores(ranked))


def calibration_metrics(ranked: Sequence[RankedMention]) -> dict[str, Any]:
    """Over the annotated mentions, whether they are linked or called NIL: `link_ece`, the expected calibration error of
    their probabilities that the first candidate is right, and `reliability`, a dict for each `ReliabilityBin`;
    `score_ece`, the error of the score itself, cut off at 0 and 1, if it were read as that probability. One without
    candidates has the probability 0."""
    scores, right = _top_scores(ranked)
    bins = reliability(np.array([mention.probability or 0.0 for mention in ranked if mention.gold]), right)
    return {
        "link_ece": calibration_error(bins),
        "score_ece": calibration_error(reliability(scores.clip(0, 1), right)),
        "reliability": [one._asdict() for one in bins],
    }


def _top_scores(ranked: Sequence[RankedMention]) -> tuple[np.ndarray, np.ndarray]:
    """Of the annotated mentions: the scores (n,) of the first candidates, and whether they are right (n,)."""
    annotated = [mention for mention in ranked if mention.gold]
    scores = np.array([mention.top_score for mention in annotated], dtype=np.float64)
    return scores, np.array([mention.rank == 1 for mention in annotated], dtype=bool)


class ReliabilityBin(NamedTuple):
    """Links with like probabilities: their number, their mean probability and the share that was right."""

    n: int
    probability: float
    right: float


def reliability(probabilities: np.ndarray, right: np.ndarray) -> list[ReliabilityBin]:
    """The bins of equal width in [0, 1] that have any link, lowest first."""
    numbers = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    return [
        ReliabilityBin(int(own.sum()), float(probabilities[own].mean()), float(right[own].mean()))
        for own in (numbers == number for number in range(N_BINS))
        if own.any()
    ]


def calibration_error(bins: list[ReliabilityBin]) -> float | None:
    """ECE (Naeini et al. 2015): Σ n · |right - probability| / Σ n. None without a link."""
    total = sum(one.n for one in bins)
    return sum(one.n * abs(one.right - one.probability) for one in bins) / total if total else None
