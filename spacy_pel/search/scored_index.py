"""An index whose entities are scored by pairs, where no inner product is the score: sum-of-max and poly-encoders."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any, Protocol, cast

import numpy as np
import torch

from ..kb.index.best import best
from ..kb.index.entity_index import EntityIndex, Nearest
from ..kb.numbering import EntityRows
from ..kb.several import Several, Vectors, counts_of, flat
from ..models.scoring.bags import given
from ..models.scoring.score import PRODUCTS_AT_ONCE, Score

EXACT_UP_TO = 20_000  # entities, where no setting of a linker says another number: while training
CANDIDATES = 16  # times k entities, about, that are scored of more
VECTORS_AT_ONCE = 8_192  # of entities
FOUND_AT_ONCE = 1 << 20  # vectors, by single vectors of mentions


class ScoredIndex:
    """Searches the vectors of an index by a score of pairs.

    Of up to `exact_up_to` entities all are scored. Of more, those are that own the vectors nearest to any single vector
    of the mention: what is found has its exact score, and what has no vector near is missed.

    Args:
        index: What the entity tower has given.
        score: How it is scored.
        exact_up_to: How many entities are all scored.
    """

    def __init__(self, index: EntityIndex, score: Score, exact_up_to: int = EXACT_UP_TO) -> None:
        self._index, self._score, self._exact_up_to = index, score, exact_up_to

    def search(
        self, queries: Vectors, k: int, within: EntityRows | None = None, **options: Any
    ) -> tuple[np.ndarray, EntityRows]:
        """See `EntityIndex.search`; the queries have several vectors each."""
        found = self.nearest(queries, k, within, **options)
        return found.scores, found.rows

    def nearest(self, queries: Vectors, k: int, within: EntityRows | None = None, **options: Any) -> Nearest:
        """The `k` entities with the best scores. Which of their vectors that is of means nothing: it is said to be the
        first. options: of the search for candidates, see `EntityIndex.nearest`."""
        rows = self._index.entities(within)
        if len(rows) > self._exact_up_to:
            scores, found = self._among_candidates(queries, k, within, options)
        else:
            scores, found = self._among_all(queries, k, rows)
        return Nearest(scores, found, np.minimum(found, 0))

    def similarities(self, queries: Vectors, numbers: np.ndarray, rows: EntityRows) -> tuple[np.ndarray, np.ndarray]:
        """See `EntityIndex.similarities`; the first vector stands for all."""
        scores, nth = np.zeros(len(rows), dtype=np.float32), np.full(len(rows), -1)
        for number in np.unique(numbers):
            own = (numbers == number).nonzero()[0]
            scores[own], there = self._scores(_one(queries, number), EntityRows(rows[own]))
            nth[own[there]] = 0
        return scores, nth

    def _among_all(self, queries: Vectors, k: int, rows: EntityRows) -> tuple[np.ndarray, EntityRows]:
        """The `k` best of `rows` for each query."""
        most = max(int(counts_of(queries).max(initial=1)), 1)
        scores, found = [np.empty((len(queries), 0), np.float32)], [np.empty((len(queries), 0), np.int64)]
        for block, vectors in self._blocks(rows):
            size = max(PRODUCTS_AT_ONCE // (most * len(block) * max(vectors.counts.max(initial=1), 1)), 1)
            chunks = (np.arange(start, min(start + size, len(queries))) for start in range(0, len(queries), size))
            entities = given(vectors)
            tops = [self._pairs(queries[own], entities).topk(min(k, len(block))) for own in chunks]
            scores += [np.concatenate([top.values.cpu().numpy() for top in tops])] if tops else []
            found += [block[np.concatenate([top.indices.cpu().numpy() for top in tops])]] if tops else []
        return best(np.hstack(scores), EntityRows(np.hstack(found)), k)

    def _blocks(self, rows: EntityRows) -> Iterator[tuple[EntityRows, Several]]:
        """Blocks of `rows` and their vectors, those with as many vectors together."""
        counts = self._index.counts_of(rows)
        order = np.argsort(counts, kind="stable")[int((counts == 0).sum()) :]  # none: removed meanwhile
        start = 0
        while start < len(order):
            block = order[start : start + max(VECTORS_AT_ONCE // int(counts[order[start]]), 1)]
            block = block[: max(VECTORS_AT_ONCE // int(counts[block[-1]]), 1)]
            yield EntityRows(rows[block]), self._index.vectors_of(EntityRows(rows[block]))
            start += len(block)

    def _among_candidates(
        self, queries: Vectors, k: int, within: EntityRows | None, options: dict[str, Any]
    ) -> tuple[np.ndarray, EntityRows]:
        """The `k` best of those that own a vector near to one of the query's, for each query."""
        scores, found = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
        for i, rows in self._candidates(queries, k, within, options):
            own_scores, there = self._scores(_one(queries, i), rows)
            numbers = EntityRows(np.where(there, rows, -1))
            (scores[i],), (found[i],) = best(own_scores[None], EntityRows(numbers[None]), k)
        return scores, EntityRows(found)

    def _candidates(
        self, queries: Vectors, k: int, within: EntityRows | None, options: dict[str, Any]
    ) -> Iterator[tuple[int, EntityRows]]:
        """The number of each query, and those that own a vector near to one of its own. The fewer vectors a query has,
        the more each of them finds, whatever the other queries have: those with as many are searched together, few at
        once."""
        counts = counts_of(queries)
        for count in np.unique(counts[counts > 0]):
            alike = (counts == count).nonzero()[0]
            depth = ceil(CANDIDATES * k / count)
            most = count * depth * ceil(self._index.n_vectors / len(self._index.entities()))
            size = max(FOUND_AT_ONCE // most, 1)
            for own in np.split(alike, range(size, len(alike), size)):
                near = self._index.search(flat(queries[own]), depth, within, **options)[1]
                for i, rows in zip(own, near.reshape(len(own), -1), strict=True):
                    yield i, EntityRows(np.unique(rows[rows >= 0]))

    def _scores(self, query: Vectors, rows: EntityRows) -> tuple[np.ndarray, np.ndarray]:
        """The scores (n,) of one query with `rows` (n,), and which of these (n,) have vectors; of others 0."""
        vectors = self._index.vectors_of(rows)
        there = vectors.counts > 0
        scores = np.zeros(len(rows), dtype=np.float32)
        if there.any():
            own = there.nonzero()[0]
            scores[own] = self._pairs(query, given(vectors[own]))[0].cpu().numpy()
        return scores, there

    def _pairs(self, queries: Vectors, entities: Any) -> torch.Tensor:
        with torch.no_grad():
            return self._score.all_pairs(given(queries), entities)


def _one(queries: Vectors, number: int) -> Vectors:
    """One of them, as queries."""
    return queries[np.array([number])]


class AnyIndex(Protocol):
    """What is searched by the vectors of mentions: an `EntityIndex`, or a `ScoredIndex`, which say what these do."""

    def search(
        self, queries: Any, k: int, within: EntityRows | None = None, **options: Any
    ) -> tuple[np.ndarray, EntityRows]: ...

    def nearest(self, queries: Any, k: int, within: EntityRows | None = None, **options: Any) -> Nearest: ...

    def similarities(self, queries: Any, numbers: np.ndarray, rows: EntityRows) -> tuple[np.ndarray, np.ndarray]: ...


def scored(index: EntityIndex, score: Score, exact_up_to: int = EXACT_UP_TO) -> AnyIndex:
    """`index`, searched by `score`: as it is, where the score is what it finds."""
    return cast(AnyIndex, index) if score.one_vector else ScoredIndex(index, score, exact_up_to)
