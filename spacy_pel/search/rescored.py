"""A search whose best are scored again: what was searched long ago, in the order of the present weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..kb.several import Vectors

NONE = -1


class CanSearch(Protocol):
    """An index of entities: for m queries the scores (m, k) and numbers (m, k) of the `k` best, best first."""

    def search(self, queries: Vectors, k: int) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Rescored:
    """The best entities of an index, scored by what they are encoded to now.

    Attributes:
        index: With vectors of older weights.
        depth: How many of its best for each query are scored again; at least as many as are asked for.
        scores: From m queries and the numbers (n,) of entities to their scores (m, n) now.
    """

    index: CanSearch
    depth: int
    scores: Callable[[Vectors, np.ndarray], np.ndarray]

    def search(self, queries: Vectors, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The scores (m, k) and numbers (m, k) of the `k` entities that are best for each of m `queries`, among the
        `depth` that `index` finds; -inf and -1 where there are fewer."""
        _, found = self.index.search(queries, max(k, self.depth))
        there = found != NONE
        if not there.any():
            return np.full((len(found), k), -np.inf, np.float32), np.full((len(found), k), NONE)
        distinct = np.unique(found[there])
        places = np.searchsorted(distinct, np.where(there, found, distinct[:1]))
        scores = np.take_along_axis(self.scores(queries, distinct), places, axis=1)
        scores[~there] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(found, order, axis=1)
