"""The vectors of one encoder and the entity that owns each: searched by vector, answered by entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import PelError
from ..kinds import ENTITY
from ..numbering import EntityRows, VectorNumbers, no_rows
from ..several import Several, vector_places
from ..stored_files import checked
from ..stretches import stretches
from .best import best, best_of_each
from .compressed import FLAT
from .edits import PendingEdits
from .files import map_array
from .on_disk import FILE_NAME, IndexRecord
from .owners import Owners
from .state import IndexState
from .vectors import BLOCK, VectorIndex, check_queries

MOST_PASSED_OVER = 1_000  # vectors of removed entities for which a search just goes so much deeper
PRODUCTS = 1 << 23  # of queries and added vectors that are taken together: some 400 MB
COMPARED = 2_048  # pairs whose vectors are read together: they stay in the caches
SPARE = 1.5  # times deeper than removed entities, were they anywhere, would ask for


class Nearest(NamedTuple):
    """The entities that own the vectors nearest to each of q queries, best first.

    Attributes:
        scores: (q, k) float32, the inner products, -inf where there are fewer than k.
        rows: (q, k) int64, -1 where there are fewer.
        places: (q, k) int64, which vector of the entity that was, counted from 0; -1 where there are fewer.
    """

    scores: np.ndarray
    rows: EntityRows
    places: np.ndarray


class EntityIndex:
    """An index of a KB: what `KnowledgeBase.entity_index` gives. It sees each change of the KB at the next search.

    Attributes:
        fingerprint: Names the encoder that made the vectors.
    """

    def __init__(self, fingerprint: str, state: IndexState, notice: Callable[[EntityIndex], object]) -> None:
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
        return cls(fingerprint, IndexState(record, *_opened(folder, record), edits), notice)

    @classmethod
    def in_memory(cls, vectors: VectorIndex, owners: Owners, n_entities: int, metric: str) -> EntityIndex:
        """An index that lies in no folder and never changes, of `vectors` that entities numbered from 0 own."""
        record: IndexRecord = {
            "kind": ENTITY,
            "dim": vectors.dim,
            "metric": metric,
            "index_type": FLAT,
            "count": len(vectors),
            "files": {},
        }
        edits = PendingEdits(n_entities, no_rows(), no_rows(), np.empty((0, vectors.dim), np.float32))
        return cls("", IndexState(record, vectors, owners, edits), lambda index: None)

    def turn_to(self, folder: Path, record: IndexRecord, edits: PendingEdits) -> None:
        """Bring the index up to date: its files, where `record` names others, and the `edits` to them."""
        if record == self._state.record:
            self._state = replace(self._state, edits=edits)
        else:
            self._state = IndexState(record, *_opened(folder, record), edits)

    @property
    def kind(self) -> str:
        """What the vectors are of: "entity" for entity texts, "names" for names."""
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
    def keeps_lengths(self) -> bool:
        """Whether its `blocks` have about the lengths that the vectors had: some compressed types do not."""
        return self._state.vectors.keeps_lengths

    @property
    def record(self) -> IndexRecord:
        """What `meta` says of the index."""
        return self._state.record

    @property
    def size_bytes(self) -> int:
        """Bytes of its files on the disk."""
        return sum(file["size"] for file in self._state.record["files"].values())

    @property
    def squared_length(self) -> float:
        """How long the vectors are, squared: the mean of a sample."""
        return self._state.squared_length

    @property
    def added(self) -> EntityRows:
        """(a,) the owners of the vectors that were added since its files were written, ascending."""
        return self._state.edits.added

    @property
    def n_vectors(self) -> int:
        """Vectors of the entities that the KB has now."""
        state = self._state
        in_files = len(state.live[0]) if len(state.edits.removed) else len(state.vectors)
        return in_files + len(state.edits.added)

    @property
    def n_missing(self) -> int:
        """Entities of the KB that have no vector here: those that another encoder's linker has added or changed."""
        return self._state.n_missing

    @property
    def entities_now(self) -> EntityRows:
        """The rows (n,) of the entities that have vectors here, ascending."""
        return self._state.entities_now

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
            Scores (q, k) float32 and rows (q, k) int64, best first, of equal scores the lower row first; which of
            several that are equal at the `k`-th place are among them is left to faiss. Row -1 with score -inf fills up
            where there are fewer than `k`.

        Raises:
            PelError: The queries have other dimensions, or the index is no longer in the KB.
        """
        found = self.nearest(queries, k, within, n_probe=n_probe, threads=threads)
        return found.scores, found.rows

    def nearest(
        self,
        queries: np.ndarray,
        k: int,
        within: EntityRows | None = None,
        *,
        n_probe: int | None = None,
        threads: int | None = None,
    ) -> Nearest:
        """As `search`, with which vector of an entity was the best."""
        self._notice(self)
        state = self._state
        check_queries(queries, self.dim)
        scores, pairs = _search_files(state, queries, k, within, n_probe, threads)
        if len(state.edits.added):
            _search_added(state, queries, within, scores, pairs)
        return Nearest(scores, *state.entities(pairs))

    def similarities(self, queries: np.ndarray, numbers: np.ndarray, rows: EntityRows) -> tuple[np.ndarray, np.ndarray]:
        """The inner products of queries with entities, each with the best vector of one.

        To be called after a `search`, which sees the changes of the KB.

        Args:
            queries: (q, d).
            numbers: (n,) of queries.
            rows: (n,) the entity that each of these is compared with.

        Returns:
            The products (n,) float32, and which of the vectors of its entity gives each (n,), counted from 0; -1, with
            0, for an entity that has no vector now.
        """
        products, nth = np.zeros(len(rows), dtype=np.float32), np.full(len(rows), -1)
        for side in _sides(self._state, rows):
            if len(side.there):
                each = np.repeat(side.there, side.counts[side.there])
                own = _products(queries, numbers[each], side.vectors_of, side.pairs)
                _, products[side.there], nth[side.there] = best_of_each(own, EntityRows(each))
        return products, nth

    def entities(self, within: EntityRows | None = None) -> EntityRows:
        """The rows (n,) of the entities that own vectors, ascending.

        Args:
            within: Only those among these, ascending; None: all.

        Raises:
            PelError: The index is no longer in the KB.
        """
        self._notice(self)
        rows = self._state.entities_now
        return rows if within is None else EntityRows(np.intersect1d(rows, within))

    def counts_of(self, rows: EntityRows) -> np.ndarray:
        """How many vectors (n,) the entities at `rows` (n,) own."""
        return np.sum([side.counts for side in _sides(self._state, rows)], axis=0)

    def vectors_of(self, rows: EntityRows) -> Several:
        """The vectors of the entities at `rows` (n,), as exactly as the index keeps them; of removed ones none."""
        sides = list(_sides(self._state, rows))
        counts = np.sum([side.counts for side in sides], axis=0)
        vectors = np.empty((int(counts.sum()), self.dim), dtype=np.float32)
        for side in sides:
            if len(side.there):
                vectors[vector_places(side.there, counts)] = side.vectors_of(side.pairs)
        return Several(vectors, counts)

    def blocks(self) -> Iterator[np.ndarray]:
        """The vectors of the entities that the KB has now, as `owners` numbers them, a block (n, dim) at a time."""
        state = self._state
        numbers, _ = state.live
        for start in range(0, len(numbers), BLOCK):
            yield state.vectors.vectors(VectorNumbers(numbers[start : start + BLOCK]))
        yield state.edits.vectors

    def owners(self) -> Owners:
        """Which entities own the vectors of `blocks`."""
        state = self._state
        return state.live[1].followed_by(state.edits.added)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r}, {self.n_vectors} vectors)"


class _Side(NamedTuple):
    """Where the vectors of some entities lie: in the files, or beside them.

    Attributes:
        counts: (n,) how many each has there.
        there: (m,) the places, among the n, of those that have any.
        pairs: (v,) the vectors of these.
        vectors_of: From such pairs to vectors.
    """

    counts: np.ndarray
    there: np.ndarray
    pairs: np.ndarray
    vectors_of: Callable[[np.ndarray], np.ndarray]


def _sides(state: IndexState, rows: EntityRows) -> Iterator[_Side]:
    edits = state.edits
    gone = np.isin(rows, edits.removed) if len(edits.removed) else np.zeros(len(rows), dtype=bool)
    for owners, vectors_of in (
        (state.owners.rows, lambda pairs: state.vectors.vectors(state.owners.vectors(pairs))),
        (edits.added, lambda pairs: edits.vectors[pairs]),
    ):
        starts = np.searchsorted(owners, rows)
        counts = np.where(gone, 0, np.searchsorted(owners, rows, side="right") - starts)
        there = counts.nonzero()[0]
        yield _Side(counts, there, stretches(starts[there], counts[there]), vectors_of)


def _products(
    queries: np.ndarray, numbers: np.ndarray, vectors_of: Callable[[np.ndarray], np.ndarray], pairs: np.ndarray
) -> np.ndarray:
    """The inner products (n,) of the queries with these `numbers` (n,) with the vectors of `pairs` (n,)."""
    blocks = (slice(start, start + COMPARED) for start in range(0, len(pairs), COMPARED))
    return np.concatenate([np.einsum("nd,nd->n", queries[numbers[own]], vectors_of(pairs[own])) for own in blocks])


def _search_files(
    state: IndexState, queries: np.ndarray, k: int, within: EntityRows | None, n_probe: int | None, threads: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Search the vectors in the files: deeper and deeper for the queries that have not found `k` entities yet.

    Returns:
        Scores (q, k) and pairs (q, k), each of another entity.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    pairs = np.full((len(queries), k), -1, dtype=np.int64)
    if not (k and len(state.owners)):
        return scores, pairs
    asked = np.arange(len(queries))
    numbers = None if within is None else state.numbers_within(within)
    passed_over = len(state.owners.of(state.edits.removed)) if numbers is None else 0
    if passed_over and _first_depth(state, k, passed_over) > k + MOST_PASSED_OVER:
        numbers, passed_over = state.live[0], 0
    depth = _first_depth(state, k, passed_over)
    while len(asked):
        there = len(state.vectors) if numbers is None else len(numbers)
        found_scores, found = state.vectors.search(
            queries[asked], min(depth, there), within=numbers, n_probe=n_probe, threads=threads
        )
        own_scores, own = state.first_pairs(found_scores, found, within)
        scores[asked], pairs[asked] = best(own_scores, VectorNumbers(own), k)
        exhausted = depth >= there or (found[:, -1] < 0)
        asked = asked[~(exhausted | ((own >= 0).sum(axis=1) >= k))]
        depth *= 2
        if passed_over and depth > k + MOST_PASSED_OVER:
            numbers, passed_over = state.live[0], 0
            depth = _first_depth(state, k, 0)
    return scores, pairs


def _search_added(
    state: IndexState, queries: np.ndarray, within: EntityRows | None, scores: np.ndarray, pairs: np.ndarray
) -> None:
    """Put those of the added vectors that are better in the place of what was found in the files, `scores` (q, k) and
    `pairs` (q, k). Memory: for `PRODUCTS` pairs of a query and a vector, however many there are."""
    wanted = state.edits.within(within)
    size = max(PRODUCTS // len(state.edits.added), 1)
    for start in range(0, len(queries), size):
        own = slice(start, start + size)
        more_scores, more = state.edits.scores(queries[own])
        all_scores = np.hstack([scores[own], more_scores[:, wanted]])
        all_pairs = VectorNumbers(np.hstack([pairs[own], more[:, wanted] + len(state.owners)]))
        scores[own], pairs[own] = best(all_scores, all_pairs, pairs.shape[1])


def _first_depth(state: IndexState, k: int, passed_over: int) -> int:
    """How many vectors to ask for, to find `k` entities among them: as many as are needed at most where each entity has
    one and few were removed, else as many as will mostly do."""
    several = ceil(k * len(state.vectors) / state.n_owners)
    if passed_over <= MOST_PASSED_OVER:
        return several + passed_over
    return ceil(SPARE * several * len(state.owners) / max(len(state.owners) - passed_over, 1))


def _opened(folder: Path, record: IndexRecord) -> tuple[VectorIndex, Owners]:
    paths = {}
    for part, file in record["files"].items():
        paths[part] = checked(folder, file, FILE_NAME)
    vectors = VectorIndex.open(paths["vectors"])
    if (len(vectors), vectors.dim) != (record["count"], record["dim"]):
        raise PelError(f"{paths['vectors']}: holds the vectors of another KB")
    owners = np.arange(record["count"])  # of a KB of format 2 or 3
    if "owners" in paths:
        owners = map_array(paths["owners"])
        is_pairs = owners.ndim == 2 and len(owners) == 2
        if not (is_pairs or owners.shape == (record["count"],)) or owners.dtype != np.dtype("<i8"):
            raise PelError(f"{paths['owners']}: holds the owners of other vectors")
    return vectors, Owners.of_array(owners)
