"""What is fitted to some documents, on others: intervals by drawing documents again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from .nil import Outcomes, Target, average_precision, threshold_of

DRAWS, FITTED_DRAWS = 200, 50  # the second where something is fitted to each
FEWEST_GROUPS = 10  # documents; of fewer, mentions are drawn
FEWEST_DRAWS = 20  # with something to measure
ENDS = 5, 95  # percentiles: nine in ten lie between them


class Interval(NamedTuple):
    """A measure on documents that are drawn.

    Attributes:
        mean: The mean.
        low: The 5th percentile.
        high: The 95th percentile.
    """

    mean: float
    low: float
    high: float

    @property
    def ends(self) -> str:
        """The two ends."""
        return f"{self.low:.4f} to {self.high:.4f}"

    def __str__(self) -> str:
        return f"{self.mean:.4f} ({self.ends})"


def recall_interval(hits: np.ndarray, groups: Sequence[int]) -> Interval | None:
    """The share (n,) of `hits` over mentions of documents that are drawn with replacement; `groups` (n,) says which
    document each is of. None without a mention."""
    return _interval([float(hits[inside].mean()) for inside, _ in _draws(groups, 0, DRAWS)])


class Elsewhere(NamedTuple):
    """How well NIL mentions are told on documents that nobody has tuned on.

    Attributes:
        f1: The F1 of the NIL class; None where a target is out of reach for too many draws.
        auprc: The mean of its average precision, which is of all thresholds.
    """

    f1: Interval | None
    auprc: float


def nil_elsewhere(
    outcomes: Outcomes,
    groups: Sequence[int],
    target: Target | None = None,
    seed: int = 0,
    fit: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Elsewhere | None:
    """The F1 of the NIL class where the threshold is tuned on documents that are drawn with replacement, and measured
    on those that were not drawn, and its average precision there: what to expect of documents that nobody has tuned on.
    None where there are too few mentions for that.

    Args:
        outcomes: Of n mentions.
        groups: (n,), which document each is of.
        target: See `tune_threshold`; a draw for which it is out of reach does not count for the F1.
        seed: Of the draws.
        fit: From the places (m,) of the mentions that were drawn to what the threshold is held against, of all mentions
            (n,), fitted to those; None: the scores of `outcomes`.
    """
    f1: list[float] = []
    auprc: list[float] = []
    for inside, outside in _draws(groups, seed, DRAWS if fit is None else FITTED_DRAWS):
        nil = outcomes.nil
        if nil[inside].all() or not nil[inside].any() or not nil[outside].any():
            continue
        held = outcomes if fit is None else outcomes._replace(scores=fit(inside))
        own, others = held.take(inside), held.take(outside)
        auprc.append(average_precision(others.nil, -others.scores) or 0.0)
        try:
            under = others.scores < threshold_of(own, target)
        except PelError:
            continue
        f1.append(2 * (under & others.nil).sum() / (under.sum() + others.nil.sum()))
    return None if len(auprc) < FEWEST_DRAWS else Elsewhere(_interval(f1), float(np.mean(auprc)))


def _draws(groups: Sequence[int], seed: int, draws: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each draw the mentions (m,) of the documents that were drawn, as often as they were, and those of others."""
    places = {group: i for i, group in enumerate(dict.fromkeys(groups))}  # in the order of the mentions
    own, n = np.array([places[group] for group in groups], dtype=np.int64), len(places)
    if n < FEWEST_GROUPS:
        own, n = np.arange(len(own)), len(own)
    rng = np.random.default_rng(seed)
    for _ in range(draws if n else 0):
        times = np.bincount(rng.integers(n, size=n), minlength=n)[own]
        yield np.repeat(np.arange(len(own)), times), np.flatnonzero(times == 0)


def _interval(values: list[float]) -> Interval | None:
    if len(values) < FEWEST_DRAWS:
        return None
    low, high = np.percentile(values, ENDS)
    return Interval(float(np.mean(values)), float(low), float(high))
