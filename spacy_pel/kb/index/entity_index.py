"""The vectors of one encoder and the entity that owns each: searched by vector, answered by entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path

import numpy as np

from ...errors import PelError
from ..numbering import EntityRows, VectorNumbers
from .best import best, best_of_each, first_of_each, without_repeats
from .edits import PendingEdits
from .files import checked, map_array, sample_digest
from .on_disk import IndexRecord
from .vectors import BLOCK, VectorIndex, check_queries

MOST_PASSED_OVER = 1_000  # vectors of removed entities for which a search just goes so much deeper
SPARE = 1.5  # times deeper than removed entities, were they anywhere, would ask for


@dataclass(frozen=True)
class _State:
    """An index at one moment. A change of the KB puts another in its place, so that a search sees one or the other."""

    record: IndexRecord
    vectors: VectorIndex
    owners: EntityRows  # (n,), ascending
    edits: PendingEdits

    @cached_property
    def n_owners(self) -> int:
        n_rows = self.edits.n_entities + len(self.edits.removed)
        if len(self.owners) and ((np.diff(self.owners, prepend=0) < 0).any() or self.owners[-1] >= n_rows):
            files = self.record["files"]
            name = files["owners" if "owners" in files else "vectors"]["name"]
            raise PelError(f"{name}: is damaged (vectors of no entity); check the KB with `spacy pel kb verify`.")
        return len(first_of_each(self.owners))

    def numbers_of(self, rows: EntityRows) -> tuple[VectorNumbers, EntityRows]:
        """The numbers (n,) in the file of the vectors of `rows`, ascending, and their owners (n,)."""
        starts = np.searchsorted(self.owners, rows)
        counts = np.searchsorted(self.owners, rows, side="right") - starts
        before = np.cumsum(counts) - counts
        numbers = np.repeat(starts - before, counts) + np.arange(counts.sum())
        return VectorNumbers(numbers), EntityRows(np.repeat(rows, counts))

    def live_numbers(self) -> VectorNumbers:
        """The numbers (n,) in the file of the vectors whose entity has not been removed."""
        numbers, _ = self.numbers_of(self.edits.removed)
        return VectorNumbers(np.delete(np.arange(len(self.owners)), numbers))

    def entities_of(self, numbers: VectorNumbers) -> EntityRows:
        """The owners (q, n) of vectors (q, n), best first: each entity once, -1 for removed ones and for number -1."""
        rows = np.where(numbers < 0, -1, self.owners[numbers])
        if len(self.edits.removed):
            rows[np.isin(rows, self.edits.removed)] = -1
        return EntityRows(rows) if self.n_owners == len(self.owners) else without_repeats(EntityRows(rows))


class EntityIndex:
    """An index of a KB: what `KnowledgeBase.entity_index` gives. It sees each change of the KB at the next search.

    Attributes:
        fingerprint: Names the encoder that made the vectors.
    """

    def __init__(self, fingerprint: str, state: _State, notice: Callable[[EntityIndex], object]) -> None:
        self.fingerprint = fingerprint
        self._state = state
        self._notice = notice

    @classmethod
    def open(
        cls,
        folder: Path,
        fingerprint: str,
        record: IndexRecord,
        edits: PendingEdits,
        notice: Callable[[EntityIndex], object],
    ) -> EntityIndex:
        """Map the files of an index.

        Args:
            folder: Of the KB.
            fingerprint: Names the encoder that made the vectors.
            record: What `meta` says of the index.
            edits: What its files do not hold yet.
            notice: Called before each search, with the index, to bring it up to date.

        Raises:
            PelError: A file is missing, truncated or foreign.
        """
        return cls(fingerprint, _State(record, *_opened(folder, record), edits), notice)

    def turn_to(self, folder: Path, record: IndexRecord, edits: PendingEdits) -> None:
        """Bring the index up to date: its files, where `record` names others, and the `edits` to them."""
        if record == self._state.record:
            self._state = replace(self._state, edits=edits)
        else:
            self._state = _State(record, *_opened(folder, record), edits)

    @property
    def kind(self) -> str:
        """What the vectors are of: "entity" for entity texts."""
        return self._state.record["kind"]

    @property
    def dim(self) -> int:
        """The dimensions of a vector."""
        return self._state.record["dim"]

    @property
    def metric(self) -> str:
        """ "cosine" or "dot". Both are searched by inner product; vectors for "cosine" have unit length."""
        return self._state.record["metric"]

    @property
    def index_type(self) -> str:
        """ "flat" for exact search, or a type of faiss."""
        return self._state.record["index_type"]

    @property
    def record(self) -> IndexRecord:
        """What `meta` says of the index."""
        return self._state.record

    @property
    def size_bytes(self) -> int:
        """Bytes of its files on the disk."""
        return sum(file["size"] for file in self._state.record["files"].values())

    @property
    def added(self) -> EntityRows:
        """(a,) the owners of the vectors that were added since its files were written, ascending."""
        return self._state.edits.added

    @property
    def n_vectors(self) -> int:
        """Vectors of the entities that the KB has now."""
        state = self._state
        return len(state.owners) - len(state.numbers_of(state.edits.removed)[0]) + len(state.edits.added)

    @property
    def n_missing(self) -> int:
        """Entities of the KB that have no vector here: those that the linker of another encoder has added."""
        state, edits = self._state, self._state.edits
        removed = len(first_of_each(state.numbers_of(edits.removed)[1]))
        return edits.n_entities - (state.n_owners - removed + len(first_of_each(edits.added)))

    def search(
        self,
        queries: np.ndarray,
        k: int,
        within: EntityRows | None = None,
        *,
        n_probe: int | None = None,
        threads: int | None = None,
    ) -> tuple[np.ndarray, EntityRows]:
        """The `k` entities that own the vectors with the largest inner products. Of several vectors the best counts.

        Args:
            queries: (q, dim) float32.
            k: How many entities to find.
            within: The rows to search in, ascending, such as `KnowledgeBase.rows_of_types` gives; None: all.
            n_probe: Cells to visit of an index that has cells; None: as many as it was built with.
            threads: Threads to use; None: as many as faiss takes.

        Returns:
            Scores (q, k) float32 and rows (q, k) int64, best first, of equal scores the lower row first. Row -1 with
            score -inf fills up where there are fewer than `k`.

        Raises:
            PelError: The queries have other dimensions, or the index is no longer in the KB.
        """
        self._notice(self)
        state = self._state
        check_queries(queries, self.dim)
        scores, rows = _search_files(state, queries, k, within, n_probe, threads)
        if not len(state.edits.added):
            return scores, rows
        new_scores, added = state.edits.scores(queries, within)
        new_rows = np.broadcast_to(added, new_scores.shape)
        return best(np.hstack([scores, new_scores]), EntityRows(np.hstack([rows, new_rows])), k)

    def similarities(self, query: np.ndarray, rows: EntityRows) -> tuple[EntityRows, np.ndarray]:
        """The inner products of a query with the entities at `rows`, of the best vector of each.

        To be called after a `search`, which sees the changes of the KB.

        Args:
            query: (d,).
            rows: (n,), ascending.

        Returns:
            Those of `rows` (m,) that an entity with a vector has now, and the products (m,) float32.
        """
        state, edits = self._state, self._state.edits
        numbers, owners = state.numbers_of(EntityRows(np.setdiff1d(rows, edits.removed, assume_unique=True)))
        added = np.isin(edits.added, rows)
        vectors = np.vstack([state.vectors.vectors(numbers), edits.vectors[added]])
        owners = EntityRows(np.concatenate([owners, edits.added[added]]))
        products, rows = best_of_each(vectors @ query, owners)
        return rows, products

    def blocks(self) -> Iterator[np.ndarray]:
        """The vectors of the entities that the KB has now, in the order of `owners`, a block (n, dim) at a time."""
        state = self._state
        numbers = state.live_numbers()
        for start in range(0, len(numbers), BLOCK):
            yield state.vectors.vectors(VectorNumbers(numbers[start : start + BLOCK]))
        yield state.edits.vectors

    def owners(self) -> EntityRows:
        """The rows (n,) of the entities that own the vectors of `blocks`, ascending."""
        state = self._state
        return EntityRows(np.concatenate([state.owners[state.live_numbers()], state.edits.added]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r}, {self.n_vectors} vectors)"


def _search_files(
    state: _State, queries: np.ndarray, k: int, within: EntityRows | None, n_probe: int | None, threads: int | None
) -> tuple[np.ndarray, EntityRows]:
    """Search the vectors in the files: deeper and deeper for the queries that have not found `k` entities yet."""
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    asked = np.arange(len(queries))
    numbers = _numbers_within(state, within)
    passed_over = len(state.numbers_of(state.edits.removed)[0]) if numbers is None else 0
    if passed_over and (depth := _first_depth(state, k, passed_over)) > k + MOST_PASSED_OVER:
        numbers, passed_over = state.live_numbers(), 0
    depth = _first_depth(state, k, passed_over)
    while len(asked):
        there = len(state.owners) if numbers is None else len(numbers)
        found_scores, found = state.vectors.search(
            queries[asked], min(depth, there), within=numbers, n_probe=n_probe, threads=threads
        )
        entities = state.entities_of(found)
        scores[asked], rows[asked] = best(found_scores, entities, k)
        exhausted = depth >= there or (found[:, -1] < 0)
        asked = asked[~(exhausted | ((entities >= 0).sum(axis=1) >= k))]
        depth *= 2
        if passed_over and depth > k + MOST_PASSED_OVER:
            numbers, passed_over = state.live_numbers(), 0
            depth = _first_depth(state, k, 0)
    return scores, EntityRows(rows)


def _numbers_within(state: _State, within: EntityRows | None) -> VectorNumbers | None:
    if within is None:
        return None
    return state.numbers_of(EntityRows(np.setdiff1d(within, state.edits.removed, assume_unique=True)))[0]


def _first_depth(state: _State, k: int, passed_over: int) -> int:
    """How many vectors to ask for, to find `k` entities among them: as many as are needed at most where each entity has
    one and few were removed, else as many as will mostly do."""
    several = ceil(k * len(state.owners) / state.n_owners)
    if passed_over <= MOST_PASSED_OVER:
        return several + passed_over
    return ceil(SPARE * several * len(state.owners) / max(len(state.owners) - passed_over, 1))


def _opened(folder: Path, record: IndexRecord) -> tuple[VectorIndex, EntityRows]:
    files = record["files"]
    path = checked(folder, files["vectors"])
    vectors = VectorIndex.open(path)
    if (len(vectors), vectors.dim) != (record["count"], record["dim"]):
        raise PelError(f"{path}: holds the vectors of another KB")
    owners = np.arange(record["count"])  # of a KB of format 2 or 3
    if "owners" in files:
        owners = map_array(checked(folder, files["owners"]))
        if owners.shape != (record["count"],) or owners.dtype != np.dtype("<i8"):
            raise PelError(f"{folder / files['owners']['name']}: holds the owners of other vectors")
    for file in files.values():
        if sample_digest(folder / file["name"]) != file["sample"]:
            raise PelError(f"{folder / file['name']}: is a file of another KB")
    return vectors, EntityRows(owners)
