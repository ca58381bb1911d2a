"""What has become of a KB since its vector file was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .vectors import BLOCK, VectorIndex, best


@dataclass(frozen=True)
class Changes:
    """The rows of entities that were removed (r,) and added (a,) since, both ascending, and the vectors of the added
    ones (a, dim), which are searched exactly beside the file."""

    removed: np.ndarray
    added: np.ndarray
    vectors: np.ndarray

    def search(
        self, index: VectorIndex, queries: np.ndarray, k: int, within: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`VectorIndex.search` over the KB as it is now: `index` without the removed rows and with the added ones."""
        scores, rows = index.search(queries, k, within=within, without=self.removed)
        if not len(self.added):
            return scores, rows
        allowed = slice(None) if within is None else np.isin(self.added, within)
        added = self.added[allowed]
        new_scores = queries.astype(np.float32) @ self.vectors[allowed].T
        new_rows = np.broadcast_to(added, new_scores.shape)
        return best(np.hstack([scores, new_scores]), np.hstack([rows, new_rows]), k)

    def vectors_of(self, index: VectorIndex, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `rows` (n,), ascending, that an entity has, and their vectors (m, dim)."""
        in_file = rows[(rows < len(index)) & ~np.isin(rows, self.removed)]
        added = np.isin(self.added, rows)
        return np.concatenate([in_file, self.added[added]]), np.vstack([index.vectors(in_file), self.vectors[added]])

    def blocks(self, index: VectorIndex) -> Iterator[np.ndarray]:
        """The vectors of all entities in row order, a block (n, dim) at a time."""
        in_file = self.live(len(index))
        for start in range(0, len(in_file), BLOCK):
            yield index.vectors(in_file[start : start + BLOCK])
        yield self.vectors

    def live(self, n_rows: int) -> np.ndarray:
        """The rows below `n_rows` that an entity has."""
        return np.delete(np.arange(n_rows), self.removed[self.removed < n_rows])
