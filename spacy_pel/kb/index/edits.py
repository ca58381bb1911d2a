"""What has become of an index since its files were written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numbering import EntityRows
from .best import best_of_each


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

    def scores(self, queries: np.ndarray, within: EntityRows | None) -> tuple[np.ndarray, EntityRows]:
        """The scores (q, m) float32 of the added entities, those of `within` alone, and their rows (m,)."""
        allowed = slice(None) if within is None else np.isin(self.added, within)
        products = queries.astype(np.float32) @ self.vectors[allowed].T
        return best_of_each(products, EntityRows(self.added[allowed]))
