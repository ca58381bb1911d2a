"""The indexes of a KB, by the encoder that made each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import PelError
from ..numbering import EntityRows, no_rows
from .edits import PendingEdits
from .entity_index import EntityIndex
from .on_disk import IndexRecord
from .owners import Owners


class Indexes(Mapping[str, EntityIndex]):
    """From fingerprints to indexes. An index is the same object as long as the KB has one of that encoder."""

    def __init__(self, folder: Path, notice: Callable[[], object]) -> None:
        """No index yet.

        Args:
            folder: Of the KB.
            notice: Called before each search, to `turn_to` what another process has changed.
        """
        self._folder = folder
        self._notice = notice
        self._open: dict[str, EntityIndex] = {}

    def __getitem__(self, fingerprint: str) -> EntityIndex:
        return self._open[fingerprint]

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._open!r})"

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of all indexes."""
        return sum(index.size_bytes for index in self.values())

    @property
    def n_added(self) -> int:
        """Entities with vectors that no file holds yet."""
        return len(np.unique(np.concatenate([no_rows(), *(index.added for index in self.values())])))

    def get_one(self, fingerprint: str | None) -> EntityIndex:
        """The index of one encoder. See `KnowledgeBase.entity_index`."""
        run = f"run `python -m spacy pel index PIPELINE {self._folder} OUT` or `linker.index()`"
        if not self:
            raise PelError(f"{self._folder}: the KB has no vectors; {run}.")
        if fingerprint in self._open:
            return self._open[fingerprint]
        known = ", ".join(f'"{one:.12}"' for one in self)
        if fingerprint is not None:
            raise PelError(
                f'{self._folder}: the KB has no vectors of the encoder "{fingerprint:.12}", only of {known}; {run}.'
            )
        if len(self) > 1:
            raise PelError(
                f"{self._folder}: the KB has vectors of several encoders; name one by its fingerprint: {known}."
            )
        return next(iter(self.values()))

    def turn_to(self, records: Mapping[str, IndexRecord], edits: Mapping[str, PendingEdits]) -> None:
        """Bring all indexes up to date.

        Args:
            records: What `meta` says of each.
            edits: What the files of each do not hold yet.

        Raises:
            PelError: A file is missing, truncated or foreign.
        """
        now = {}
        for fingerprint, record in records.items():
            index = self._open.get(fingerprint)
            if index is None:
                index = EntityIndex.open(self._folder, fingerprint, record, edits[fingerprint], self._before_search)
            else:
                index.turn_to(self._folder, record, edits[fingerprint])
            now[fingerprint] = index
        self._open = now

    def close(self) -> None:
        """Let go of the files."""
        self._open = {}

    def _before_search(self, index: EntityIndex) -> None:
        self._notice()
        if self._open.get(index.fingerprint) is not index:
            raise PelError(
                f'{self._folder}: the index "{index.fingerprint:.12}" is no longer in this KB; index it again.'
            )


class NewVectors(NamedTuple):
    """Vectors of entities that are to be added to a KB.

    Attributes:
        fingerprint: Names the encoder that made them.
        vectors: (v, dim).
        owners: (v,) the place, among the entities to add, of the one that owns each, ascending; None: one vector each.
    """

    fingerprint: str
    vectors: np.ndarray
    owners: Sequence[int] | None = None

    @property
    def places(self) -> np.ndarray:
        """(v,) the `owners` as an array."""
        return np.arange(len(self.vectors)) if self.owners is None else np.asarray(self.owners, dtype=np.int64)


def check_owners(folder: Path, owners: Owners, live_rows: EntityRows) -> None:
    """Raise `PelError` unless the `owners` of vectors for the KB at `folder` are ascending `live_rows`, and each vector
    has one."""
    rows = owners.rows
    if not len(rows) or (np.diff(rows) < 0).any() or not np.isin(rows, live_rows).all():
        raise PelError(f"{folder}: the owners of the vectors must be rows of entities, ascending.")
    if owners.numbers is not None and (
        len(owners.numbers) != len(rows) or not np.array_equal(np.unique(owners.numbers), np.arange(owners.n_vectors))
    ):
        raise PelError(f"{folder}: each vector must have an owner.")


def check_added(folder: Path, records: Mapping[str, IndexRecord], n_entities: int, given: Sequence[NewVectors]) -> None:
    """Check the vectors of entities that are to be added.

    Args:
        folder: Of the KB.
        records: The indexes of the KB.
        n_entities: How many are to be added.
        given: Their vectors.

    Raises:
        PelError: They are not what the indexes need.
    """
    if not records and given:
        raise PelError(f"{folder}: the KB has no vectors; add entities without, then index the KB.")
    if records and not given:
        dim = next(iter(records.values()))["dim"]
        raise PelError(
            f"{folder}: Expected vectors of the shape ({n_entities}, {dim}), got none; use `linker.add_entities` or "
            "`linker.update_entities`, which encode them."
        )
    for own in given:
        if own.fingerprint not in records:
            raise PelError(
                f"{folder}: its vectors are of another encoder than those to add; run `python -m spacy pel index`."
            )
        dim = records[own.fingerprint]["dim"]
        expected = n_entities if own.owners is None else len(own.owners)
        if own.vectors.shape != (expected, dim):
            raise PelError(f"Expected vectors of the shape ({expected}, {dim}), got the shape {own.vectors.shape}.")
        if not np.isfinite(own.vectors).all():
            raise PelError("A vector to add is not finite; check the encoder's weights.")
        if (np.diff(own.places) < 0).any() or not np.isin(own.places, np.arange(n_entities)).all():
            raise PelError(f"The owners of the vectors to add must be ascending places among {n_entities} entities.")


def renumbered(rows: EntityRows, removed: EntityRows) -> EntityRows:
    """`rows`, none of which is `removed`, once the gaps of these are closed. Both are ascending."""
    return EntityRows(rows - np.searchsorted(removed, rows))
