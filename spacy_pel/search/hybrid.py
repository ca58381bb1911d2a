"""A KB searched from several sides: by the vectors of its entities, by those of its names, and by names as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..kb.index.entity_index import Nearest
from ..kb.kinds import ENTITY, NAMES
from ..kb.names.name_index import NameIndex
from ..kb.numbering import EntityRows
from ..kb.several import Vectors
from . import parts
from .scored_index import AnyIndex
from .search import Queries, Scored
from .weights import NO_NAMES, NameWeights

AT_ONCE = 1_024  # queries whose candidates are merged together
ROW = (1 << 40) - 1  # a pair of a query and a row is one number, with 40 bits for the row


class HybridSearch:
    """For every mention: of each index the `k` entities with the most similar vectors, the `k` with the names most like
    its text and all that have its text as a name, ranked by the weighted mean of all.

    Args:
        indexes: The vectors of the KB, by their kind: of entities, of names, or both.
        names: The names of the KB; None: their texts are not compared.
        weights: What counts beside the similarity; None: `NO_NAMES`.
        options: More arguments of `EntityIndex.search`.
    """

    def __init__(
        self,
        indexes: Mapping[str, AnyIndex],
        names: NameIndex | None = None,
        weights: NameWeights | None = None,
        **options: Any,
    ) -> None:
        self._indexes, self._names, self._weights = indexes, names, weights or NO_NAMES
        self._options = options

    def __call__(self, queries: Queries, k: int, within: EntityRows | None = None) -> Scored:
        """See `Search`. With texts or two indexes more than `k` entities.

        Raises:
            PelError: Without vectors of this encoder, and for a KB of format 2, whose names have no index.
        """
        nearest = {
            kind: index.nearest(queries.vectors, k, within, **self._options) for kind, index in self._indexes.items()
        }
        order = np.array(sorted(range(len(queries.texts)), key=queries.texts.__getitem__), dtype=np.int64)
        blocks = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
        return _joined(order, [self._merged(queries, block, nearest, k, within) for block in blocks])

    def _merged(
        self, queries: Queries, block: np.ndarray, nearest: Mapping[str, Nearest], k: int, within: EntityRows | None
    ) -> Scored:
        """What is found for the queries with the numbers `block` (b,), in the order of their texts."""
        sides = {kind: Nearest(*(values[block] for values in found)) for kind, found in nearest.items()}
        near = {kind: _pairs(np.arange(len(block))[:, None], side.rows) for kind, side in sides.items()}
        every = [pairs[side.rows >= 0] for pairs, side in zip(near.values(), sides.values(), strict=True)]
        lexical = None if self._names is None else _Lexical(self._names, queries, block, sides, k, within)
        pairs = np.unique(np.concatenate(every if lexical is None else [*every, lexical.found]))
        there, own = np.zeros(len(pairs), dtype=bool), {}
        for kind, side in sides.items():
            products, nth = self._similarities(kind, queries.vectors[block], pairs, near[kind], side)
            there |= nth >= 0
            part = parts.NAMES if kind == NAMES and ENTITY in sides else parts.SIMILARITY
            own[part] = products  # 0 of an entity that another linker has added
            if kind == NAMES:
                own[parts.NAME] = np.maximum(nth, 0)
        if lexical is not None:
            own[parts.NGRAM], own[parts.EXACT] = lexical.scores(pairs)
        return self._ranked(pairs[there], {part: values[there] for part, values in own.items()}, len(block))

    def _similarities(
        self, kind: str, vectors: Vectors, pairs: np.ndarray, near: np.ndarray, side: Nearest
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each of `pairs` (n,) how similar the best vector is (n,), and which of the entity's that is (n,): as the
        `side` has found it for its own (b, k), else compared now."""
        found = side.rows >= 0
        products, nth = np.zeros(len(pairs), dtype=np.float32), np.full(len(pairs), -1)
        at = np.searchsorted(pairs, near[found])
        products[at], nth[at] = side.scores[found], side.places[found]
        others = (nth < 0).nonzero()[0]
        numbers, rows = pairs[others] >> 40, EntityRows(pairs[others] & ROW)
        products[others], nth[others] = self._indexes[kind].similarities(vectors, numbers, rows)
        return products, nth

    def _ranked(self, pairs: np.ndarray, own: dict[str, np.ndarray], n: int) -> Scored:
        """`pairs` (p,) of `n` queries and what their scores are made of (p,), best first."""
        score = self._weights.score(own)
        queries = pairs >> 40
        order = np.lexsort((-score, queries))  # which leaves equal ones in the order of their rows
        counts = np.bincount(queries, minlength=n)
        ordered = {part: values[order] for part, values in own.items()}
        return Scored(np.cumsum(counts) - counts, counts, EntityRows(pairs[order] & ROW), score[order], ordered)


class _Lexical:
    """What the names of a KB say of some queries, of which equal texts follow each other and are matched once.

    Attributes:
        found: Pairs (n,) of a query and a row: of the `k` entities with names most like its text, and exact matches.
    """

    def __init__(
        self,
        names: NameIndex,
        queries: Queries,
        block: np.ndarray,
        sides: Mapping[str, Nearest],
        k: int,
        within: EntityRows | None,
    ) -> None:
        """Match the texts, and compare those of the `block` (b,) with the rows that its `sides` have found too."""
        texts = [queries.texts[i] for i in block.tolist()]
        distinct = list(dict.fromkeys(texts))
        numbers = {text: number for number, text in enumerate(distinct)}
        self._text_of = np.array([numbers[text] for text in texts], dtype=np.int64)
        ends = np.searchsorted(self._text_of, np.arange(len(distinct) + 1)).tolist()
        best, compared, scores = [], [], []
        for i, match in enumerate(names.matches(distinct, queries.lang)):
            best.append(match.best(k, within))
            near = [side.rows[ends[i] : ends[i + 1]].ravel() for side in sides.values()]
            rows = np.unique(np.concatenate([*near, best[-1]]))
            rows = EntityRows(rows[rows >= 0])
            compared.append(_pairs(i, rows))
            scores.append(match.scores(rows, within))
        own = [best[number] for number in self._text_of.tolist()]
        self.found = _pairs(np.repeat(np.arange(len(own)), list(map(len, own))), np.concatenate(own))
        self._compared, self._scores = np.concatenate(compared), np.concatenate(scores)

    def scores(self, pairs: np.ndarray) -> np.ndarray:
        """How alike the names of each of `pairs` (n,) are, and whether they match exactly: (2, n)."""
        with_texts = _pairs(self._text_of[pairs >> 40], EntityRows(pairs & ROW))
        return self._scores[np.searchsorted(self._compared, with_texts)].T


def _pairs(queries: Any, rows: EntityRows) -> np.ndarray:
    return queries << 40 | rows


def _joined(order: np.ndarray, found: Sequence[Scored]) -> Scored:
    """What was found for blocks of queries, as it is for all, whose numbers are `order` (q,) in these blocks."""
    sizes = np.array([len(one.rows) for one in found])
    starts, counts = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    begins = zip(found, (np.cumsum(sizes) - sizes).tolist(), strict=True)
    starts[order] = np.concatenate([one.starts + begin for one, begin in begins])
    counts[order] = np.concatenate([one.counts for one in found])
    return Scored(
        starts,
        counts,
        EntityRows(np.concatenate([one.rows for one in found])),
        np.concatenate([one.scores for one in found]),
        {part: np.concatenate([one.parts[part] for one in found]) for part in found[0].parts},
    )
