"""A KB searched from two sides: by the vectors of its entities and by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kb.index.entity_index import EntityIndex
from ..kb.names.name_index import NameIndex, NameMatch
from ..kb.numbering import EntityRows
from .search import EXACT, NGRAM, SIMILARITY, Queries, Scored
from .weights import NameWeights


class HybridSearch:
    """For every mention: the `k` entities with the most similar vectors, the `k` with the names most like its text, and
    all that have its text as a name, ranked by the weighted mean of both.

    Args:
        index: The vectors of the KB.
        names: The names of the KB.
        weights: What names count beside the similarity.
        options: More arguments of `EntityIndex.search`.
    """

    def __init__(self, index: EntityIndex, names: NameIndex, weights: NameWeights, **options: Any) -> None:
        self._index, self._names, self._weights = index, names, weights
        self._options = options

    def __call__(self, queries: Queries, k: int, within: EntityRows | None = None) -> list[Scored]:
        """See `Search`. Up to 2 k entities and the exact ones.

        Raises:
            PelError: Without vectors of this encoder, and for a KB of format 2, whose names have no index.
        """
        found: dict[int, Scored] = {}
        for i, rows, similarity, lexical in self._from_both_sides(queries, k, within):
            score = self._weights.score(similarity, lexical)
            order = np.lexsort((rows, -score))
            parts = {SIMILARITY: similarity[order], NGRAM: lexical[order, 0], EXACT: lexical[order, 1]}
            found[i] = Scored(EntityRows(rows[order]), score[order], parts)
        return [found[i] for i in range(len(queries.texts))]

    def _from_both_sides(
        self, queries: Queries, k: int, within: EntityRows | None
    ) -> Iterator[tuple[int, EntityRows, np.ndarray, np.ndarray]]:
        """For every query, in the order of their texts: its number, the rows (n,) that either side has found, their
        similarities (n,), and their n-gram similarity and exact match (n, 2)."""
        texts = queries.texts
        scores, rows = self._index.search(queries.vectors, k, within, **self._options)
        match: NameMatch | None = None
        for i in sorted(range(len(texts)), key=texts.__getitem__):
            if match is None or match.text != texts[i]:
                match = self._names.match(texts[i])
            own = rows[i] >= 0
            others = EntityRows(np.setdiff1d(match.best(k, within), rows[i]))
            by_name, similarity = self._index.similarities(queries.vectors[i], others)
            candidates = EntityRows(np.concatenate([rows[i][own], by_name]))
            yield i, candidates, np.concatenate([scores[i][own], similarity]), match.scores(candidates)
