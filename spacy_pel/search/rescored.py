"""A search whose best are encoded again: what was searched long ago, in the order of the present weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

NONE = -1


class _Index(Protocol):
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Rescored:
    """The best entities of an index, scored by what they are encoded to now.

    Attributes:
        index: With vectors of older weights.
        depth: How many of its best for each query are scored again; at least as many as are asked for.
        encode: From the numbers (n,) of entities to their vectors (n, d) now.
    """

    index: _Index
    depth: int
    encode: Callable[[np.ndarray], np.ndarray]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The scores (m, k) and numbers (m, k) of the `k` entities that are best for each of `queries` (m, d), among
        the `depth` that `index` finds; -inf and -1 where there are fewer."""
        _, found = self.index.search(queries, max(k, self.depth))
        distinct, where = np.unique(found, return_inverse=True)
        if distinct[0] == NONE:  # a row of its own, that nothing is encoded for
            vectors = np.vstack([np.zeros_like(queries[:1]), self.encode(distinct[1:])])
        else:
            vectors = self.encode(distinct)
        scores = np.einsum("md,mkd->mk", queries, vectors[where.reshape(found.shape)])
        scores[found == NONE] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(found, order, axis=1)
