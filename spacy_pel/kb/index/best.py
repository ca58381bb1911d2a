"""The best of what several searches found."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..numbering import EntityRows, VectorNumbers

Numbers = TypeVar("Numbers", EntityRows, VectorNumbers)
MANY = 4  # times as many columns as are kept: to sort only those that may be kept is faster


def best(scores: np.ndarray, numbers: Numbers, k: int) -> tuple[np.ndarray, Numbers]:
    """The `k` best columns, best first, of equal scores the lower number first.

    Args:
        scores: (q, n) float32.
        numbers: (q, n) int64, what was scored; -1 stands for nothing.
        k: How many columns to keep. Where n < k, -1 with score -inf fills up.

    Returns:
        Scores (q, k) and numbers (q, k).
    """
    scores, columns = np.where(numbers < 0, np.float32(-np.inf), scores), np.asarray(numbers)
    if 0 < k < scores.shape[1] / MANY:
        likely = _as_good(scores, k)
        scores, columns = np.take_along_axis(scores, likely, axis=1), np.take_along_axis(columns, likely, axis=1)
    order = np.lexsort((columns, -scores), axis=-1)[:, :k]
    missing = ((0, 0), (0, k - order.shape[1]))
    chosen: Any = np.pad(np.take_along_axis(columns, order, axis=-1), missing, constant_values=-1)
    return np.pad(np.take_along_axis(scores, order, axis=-1), missing, constant_values=-np.inf), chosen


def _as_good(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns (q, m) of `scores` (q, n), in any order: all that are as good as the `k`-th best of their row."""
    worse = -scores
    kth = np.partition(worse, k - 1, axis=1)[:, k - 1 : k]
    most = max(int((worse <= kth).sum(axis=1).max(initial=0)), k)
    return np.argpartition(worse, most - 1, axis=1)[:, :most]


def without_repeats(rows: EntityRows) -> EntityRows:
    """`rows` (q, n), of which each query keeps the first of those that are equal; -1 stands for the others."""
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    ascending[:, 1:][ascending[:, 1:] == ascending[:, :-1].copy()] = -1
    kept = np.empty_like(rows)
    np.put_along_axis(kept, order, ascending, axis=1)
    return EntityRows(kept)


def best_of_each(scores: np.ndarray, owners: EntityRows) -> tuple[EntityRows, np.ndarray, np.ndarray]:
    """The best score of each entity.

    Args:
        scores: (..., n), of n vectors.
        owners: (n,), the entity of each vector, ascending.

    Returns:
        The rows (m,) of the m entities, ascending, their scores (..., m), and which of its vectors (..., m) gives that,
        counted from 0; of equal ones the first.
    """
    first = first_of_each(owners)
    if len(first) == len(owners):
        return owners, scores, np.zeros(scores.shape, dtype=np.int64)
    most = np.maximum.reduceat(scores, first, axis=-1)
    counts = np.diff(first, append=len(owners))
    nth = np.arange(len(owners)) - np.repeat(first, counts)
    is_best = scores == np.repeat(most, counts, axis=-1)
    return EntityRows(owners[first]), most, np.minimum.reduceat(np.where(is_best, nth, len(owners)), first, axis=-1)


def first_of_each(owners: EntityRows) -> np.ndarray:
    """The places (m,) in `owners` (n,), ascending, at which another entity begins."""
    return np.flatnonzero(np.diff(owners, prepend=-1))
