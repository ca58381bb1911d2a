"""Which entities own which vectors of an index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..numbering import EntityRows, VectorNumbers
from ..stretches import stretches
from .best import first_of_each


@dataclass(frozen=True)
class Owners:
    """Pairs of an entity and a vector, in the order of the entities, and of one entity in that of its names. A vector
    of a name that several entities have is in a pair with each.

    Attributes:
        rows: (p,) the row of the entity of each pair, ascending.
        numbers: (p,) the number of its vector; None: pair i has vector i.
    """

    rows: EntityRows
    numbers: VectorNumbers | None = None

    @classmethod
    def of_array(cls, array: np.ndarray) -> Owners:
        """From what `array` gave."""
        return cls(EntityRows(array)) if array.ndim == 1 else cls(EntityRows(array[0]), VectorNumbers(array[1]))

    @property
    def array(self) -> np.ndarray:
        """As it is kept in a file: the rows (p,), or rows and numbers (2, p)."""
        return self.rows if self.numbers is None else np.stack([self.rows, self.numbers])

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def n_entities(self) -> int:
        """How many entities own a vector."""
        return len(first_of_each(self.rows))

    @cached_property
    def n_vectors(self) -> int:
        """One more than the largest number of a vector."""
        return len(self.rows) if self.numbers is None else int(self.numbers.max(initial=-1)) + 1

    def of(self, rows: EntityRows) -> np.ndarray:
        """The pairs (m,) of the entities at `rows`, which ascend. The pairs do too."""
        starts = np.searchsorted(self.rows, rows)
        return stretches(starts, np.searchsorted(self.rows, rows, side="right") - starts)

    def vectors(self, pairs: np.ndarray) -> VectorNumbers:
        """The numbers of the vectors of `pairs`, of the same shape."""
        return VectorNumbers(pairs) if self.numbers is None else VectorNumbers(self.numbers[pairs])

    def take(self, pairs: np.ndarray) -> tuple[VectorNumbers, Owners]:
        """Some `pairs` (m,), ascending: the vectors (v,) that are in them, and the pairs with those numbered anew."""
        rows, numbers = EntityRows(self.rows[pairs]), self.vectors(pairs)
        if self.numbers is None:
            return numbers, Owners(rows)
        used, anew = np.unique(numbers, return_inverse=True)
        return VectorNumbers(used), Owners(rows, VectorNumbers(anew))

    def followed_by(self, rows: EntityRows) -> Owners:
        """With the owners (n,) of vectors that come behind all that there are, one each."""
        together = EntityRows(np.concatenate([self.rows, rows]))
        if self.numbers is None:
            return Owners(together)
        new = np.arange(self.n_vectors, self.n_vectors + len(rows))
        return Owners(together, VectorNumbers(np.concatenate([self.numbers, new])))

    def with_rows(self, rows: EntityRows) -> Owners:
        """The same pairs of entities that are at other `rows` (p,) now."""
        return replace(self, rows=rows)

    def spread(self, scores: np.ndarray, numbers: VectorNumbers) -> tuple[np.ndarray, np.ndarray]:
        """What was found among the vectors, as pairs.

        Args:
            scores: (q, n), best first.
            numbers: (q, n), -1 for no vector.

        Returns:
            Scores (q, m) and pairs (q, m), best first, where -1 stands for no pair; m is n, or as many as there are
            pairs of the vectors of one query.
        """
        if self.numbers is None or not numbers.shape[1]:
            return scores, numbers
        pairs, starts = self._by_vector
        counts = np.where(numbers < 0, 0, starts[numbers + 1] - starts[numbers])
        ends = np.cumsum(counts, axis=1)
        width = int(ends[:, -1].max(initial=0))
        query, place = np.nonzero(np.arange(width) < ends[:, -1:])
        found = np.repeat(np.arange(numbers.size), counts.ravel())  # which vector of which query, for each pair
        nth = place - (ends - counts).ravel()[found]
        spread_pairs = np.full((len(numbers), width), -1, dtype=np.int64)
        spread_scores = np.full((len(numbers), width), -np.inf, dtype=scores.dtype)
        spread_pairs[query, place] = pairs[starts[numbers.ravel()[found]] + nth]
        spread_scores[query, place] = scores.ravel()[found]
        return spread_scores, spread_pairs

    @cached_property
    def _by_vector(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (p,) in the order of their vectors, and where those of each vector begin (v + 1,)."""
        assert self.numbers is not None
        counts = np.bincount(self.numbers, minlength=self.n_vectors)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return np.argsort(self.numbers, kind="stable").astype(np.int32), starts.astype(np.int32)
