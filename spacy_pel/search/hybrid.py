"""A KB searched from two sides: by the vectors of its entities and by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..kb.index.entity_index import EntityIndex
from ..kb.knowledge_base import KnowledgeBase
from ..kb.names.name_index import NameMatch
from ..kb.numbering import EntityRows
from .weights import Weights


class Found(NamedTuple):
    """What either side found for mention number `mention`: the rows (n,), their similarities (n,) and their lexical
    features (n, 2), n-gram similarity and exact match."""

    mention: int
    rows: EntityRows
    similarity: np.ndarray
    lexical: np.ndarray


def hybrid_search(
    kb: KnowledgeBase,
    search: Callable,
    index: EntityIndex,
    texts: Sequence[str],
    queries: np.ndarray,
    k: int,
    within: EntityRows | None,
    weights: Weights,
) -> tuple[np.ndarray, EntityRows]:
    """`EntityIndex.search` by the score of `weights`: the `k` best of what `find_by_both` finds.

    RETURNS: scores (q, k) float32 and rows (q, k) int64, best first; row -1 and score -inf where there are fewer.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full(scores.shape, -1, dtype=np.int64)
    for found in find_by_both(kb, search, index, texts, queries, k, within):
        score = weights.score(found.similarity, found.lexical)
        order = np.lexsort((found.rows, -score))[:k]
        scores[found.mention, : len(order)], rows[found.mention, : len(order)] = score[order], found.rows[order]
    return scores, EntityRows(rows)


def find_by_both(
    kb: KnowledgeBase,
    search: Callable,
    index: EntityIndex,
    texts: Sequence[str],
    queries: np.ndarray,
    k: int,
    within: EntityRows | None = None,
) -> Iterator[Found]:
    """For every mention the `k` entities with the most similar vectors, the `k` with the names most like its text, and
    all that have it as a name; in the order of the texts.

    search, index: `EntityIndex.search`, with its settings, and the index.
    texts, queries (q, d): the mentions and their vectors. within: as for `EntityIndex.search`.
    RAISES: `PelError` as that does, and for a KB whose names are not indexed, since an older spacy-pel built it.
    """
    scores, rows = search(queries, k, within)
    match: NameMatch | None = None
    for i in sorted(range(len(texts)), key=texts.__getitem__):
        if match is None or match.text != texts[i]:
            match = kb.names.match(texts[i])
        own = rows[i] >= 0
        by_name, similarity = index.similarities(queries[i], EntityRows(np.setdiff1d(match.best(k, within), rows[i])))
        candidates = EntityRows(np.concatenate([rows[i][own], by_name]))
        yield Found(i, candidates, np.concatenate([scores[i][own], similarity]), match.scores(candidates))
