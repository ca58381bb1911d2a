"""What has become of an index since its files were written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numbering import EntityRows
from .best import best_of_each, first_of_each


@dataclass(frozen=True)
class PendingEdits:
    """Edits of a KB that the files of an index do not hold yet.

    Attributes:
        n_entities: Entities of the KB now.
        removed: (r,) rows of entities that were removed, ascending.
        added: (a,) rows of entities that were added, ascending: the owner of each of `vectors`.
        vectors: (a, dim) float32, which are searched exactly beside the files.
    """

    n_entities: int
    removed: EntityRows
    added: EntityRows
    vectors: np.ndarray

    def scores(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The scores (q, m) float32 of the added entities, and the best of its `vectors` (q, m) of each."""
        _, scores, nth = best_of_each(queries.astype(np.float32) @ self.vectors.T, self.added)
        return scores, first_of_each(self.added) + nth

    def within(self, rows: EntityRows | None) -> np.ndarray | slice:
        """Which of the added entities (m,) are among `rows`; None: all."""
        return slice(None) if rows is None else np.isin(self.added[first_of_each(self.added)], rows)
