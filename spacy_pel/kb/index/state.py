"""An index at one moment: its files, and what has changed since they were written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...errors import PelError
from ..kept import KeptByArray
from ..numbering import EntityRows, VectorNumbers
from .best import first_of_each, without_repeats
from .edits import PendingEdits
from .on_disk import IndexRecord
from .owners import Owners
from .vectors import VectorIndex

SAMPLE = 1_000  # vectors that tell how long all are


@dataclass(frozen=True)
class IndexState:
    """An index at one moment. A change of the KB puts another in its place, so that a search sees one or the other.

    A pair is an entity and one of its vectors (see `Owners`). Those of added entities are numbered behind the others.
    """

    record: IndexRecord
    vectors: VectorIndex
    owners: Owners
    edits: PendingEdits

    @cached_property
    def n_owners(self) -> int:
        """How many entities own vectors in the files.

        Raises:
            PelError: What the files say of that makes no sense.
        """
        owners, n_rows = self.owners, self.edits.n_entities + len(self.edits.removed)
        rows, numbers = owners.rows, owners.numbers
        in_order = not len(rows) or ((np.diff(rows, prepend=0) >= 0).all() and rows[-1] < n_rows)
        has_all = numbers is None or (numbers.min(initial=0) >= 0 and owners.n_vectors == len(self.vectors))
        if not (in_order and has_all):
            files = self.record["files"]
            name = files["owners" if "owners" in files else "vectors"]["name"]
            raise PelError(f"{name}: is damaged (vectors of no entity); check the KB with `spacy pel kb verify`.")
        return owners.n_entities

    @cached_property
    def n_missing(self) -> int:
        """See `EntityIndex.n_missing`."""
        removed = len(first_of_each(EntityRows(self.owners.rows[self.owners.of(self.edits.removed)])))
        return self.edits.n_entities - (self.n_owners - removed + len(first_of_each(self.edits.added)))

    @cached_property
    def live(self) -> tuple[VectorNumbers, Owners]:
        """The vectors (v,) in the files of entities that have not been removed, and which of these own them."""
        return self.owners.take(np.delete(np.arange(len(self.owners)), self.owners.of(self.edits.removed)))

    @cached_property
    def numbers_within(self) -> KeptByArray[VectorNumbers]:
        """From rows (n,) to the vectors (v,) in the files of those of their entities that have not been removed."""
        left = lambda rows: EntityRows(np.setdiff1d(rows, self.edits.removed))  # noqa: E731
        return KeptByArray(lambda rows: self.owners.take(self.owners.of(left(rows)))[0])

    @cached_property
    def entities_now(self) -> EntityRows:
        """The rows (n,) of the entities that own vectors now, ascending."""
        in_files = self.owners.rows[first_of_each(self.owners.rows)]
        return EntityRows(np.setdiff1d(np.concatenate([in_files, self.edits.added]), self.edits.removed))

    @cached_property
    def squared_length(self) -> float:
        """The mean squared length of the first vectors in the files; 1 where there are none."""
        if not len(self.vectors):
            return 1.0
        vectors = self.vectors.vectors(VectorNumbers(np.arange(min(SAMPLE, len(self.vectors)))))
        return float(np.square(vectors).sum(axis=1).mean())

    def entities(self, pairs: np.ndarray) -> tuple[EntityRows, np.ndarray]:
        """The rows of `pairs` (q, n), and which vector of its entity each has, counted from 0; -1 stays -1."""
        n, own, added = len(self.owners), self.owners.rows, self.edits.added
        if n and not len(added) and self.n_owners == n:
            return EntityRows(np.where(pairs < 0, -1, own[pairs])), np.minimum(pairs, 0)
        rows, places = np.full_like(pairs, -1), np.full_like(pairs, -1)
        for start, end, owners in ((0, n, own), (n, n + len(added), added)):
            here = (pairs >= start) & (pairs < end)
            rows[here] = owners[pairs[here] - start]
            places[here] = pairs[here] - start - np.searchsorted(owners, rows[here])
        return EntityRows(rows), places

    def first_pairs(
        self, scores: np.ndarray, numbers: VectorNumbers, within: EntityRows | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What was found among the vectors in the files, best first, as pairs: of each entity the first, -1 for others.

        Args:
            scores: (q, n).
            numbers: (q, n), of the vectors; -1 for none.
            within: The rows that count, ascending; None: all.

        Returns:
            Scores (q, m) and pairs (q, m).
        """
        scores, pairs = self.owners.spread(scores, numbers)
        rows = np.where(pairs < 0, -1, self.owners.rows[pairs])
        if len(self.edits.removed):
            rows[np.isin(rows, self.edits.removed)] = -1
        if within is not None and self.owners.numbers is not None:  # a vector that is searched may have other owners
            rows[~np.isin(rows, within)] = -1
        if self.n_owners != len(self.owners):
            rows = without_repeats(EntityRows(rows))
        return scores, np.where(rows < 0, -1, pairs)
