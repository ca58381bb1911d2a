"""A KB searched from several sides: by the vectors of its entities, by those of its names, and by names as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..kb.index.entity_index import EntityIndex, Nearest
from ..kb.kinds import ENTITY, NAMES
from ..kb.names.name_index import NameIndex, NameMatch
from ..kb.numbering import EntityRows
from . import parts
from .search import Queries, Scored
from .weights import NO_NAMES, NameWeights


class _Side(NamedTuple):
    """What one index has found for one query.

    Attributes:
        rows: (n,) entities, best first.
        scores: (n,) their similarities.
        places: (n,) which of its vectors was the best.
    """

    rows: EntityRows
    scores: np.ndarray
    places: np.ndarray


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
        indexes: Mapping[str, EntityIndex],
        names: NameIndex | None = None,
        weights: NameWeights | None = None,
        **options: Any,
    ) -> None:
        self._indexes, self._names, self._weights = indexes, names, weights or NO_NAMES
        self._options = options

    def __call__(self, queries: Queries, k: int, within: EntityRows | None = None) -> list[Scored]:
        """See `Search`. With texts or two indexes more than `k` entities.

        Raises:
            PelError: Without vectors of this encoder, and for a KB of format 2, whose names have no index.
        """
        found: dict[int, Scored] = {}
        for i, rows, own in self._from_all_sides(queries, k, within):
            score = self._weights.score(own)
            order = np.lexsort((rows, -score))
            ordered = {part: values[order] for part, values in own.items()}
            found[i] = Scored(EntityRows(rows[order]), score[order], ordered)
        return [found[i] for i in range(len(queries.texts))]

    def _from_all_sides(
        self, queries: Queries, k: int, within: EntityRows | None
    ) -> Iterator[tuple[int, EntityRows, dict[str, np.ndarray]]]:
        """For every query, in the order of their texts: its number, the rows (n,) that any side has found, and what
        their scores are made of (n,)."""
        texts = queries.texts
        nearest = {
            kind: index.nearest(queries.vectors, k, within, **self._options) for kind, index in self._indexes.items()
        }
        match: NameMatch | None = None
        for i in sorted(range(len(texts)), key=texts.__getitem__):
            sides = {kind: _side(found, i) for kind, found in nearest.items()}
            rows = [side.rows for side in sides.values()]
            if self._names is not None:
                match = match if match and match.text == texts[i] else self._names.match(texts[i], queries.lang)
                rows.append(match.best(k, within))
            candidates, own = self._compared(queries.vectors[i], EntityRows(np.concatenate(rows)), sides)
            if match is not None:
                own[parts.NGRAM], own[parts.EXACT] = match.scores(candidates).T
            yield i, candidates, own

    def _compared(
        self, query: np.ndarray, rows: EntityRows, sides: Mapping[str, _Side]
    ) -> tuple[EntityRows, dict[str, np.ndarray]]:
        """Those of `rows` (n,), each once, that have a vector, and their similarities to the query."""
        if len(sides) == 1:
            kind = next(iter(sides))
            side = _with_others(sides[kind], self._indexes[kind], query, rows)
            return side.rows, _parts_of(kind, side, parts.SIMILARITY)
        rows, own = EntityRows(np.unique(rows)), {}
        there = np.zeros(len(rows), dtype=bool)
        for kind, part in ((ENTITY, parts.SIMILARITY), (NAMES, parts.NAMES)):
            side = _with_others(sides[kind], self._indexes[kind], query, rows)
            at = np.searchsorted(rows, side.rows)
            there[at] = True
            for name, values in _parts_of(kind, side, part).items():
                own[name] = np.zeros(len(rows), dtype=values.dtype)  # of an entity that another linker has added
                own[name][at] = values
        return EntityRows(rows[there]), {name: values[there] for name, values in own.items()}


def _side(found: Nearest, i: int) -> _Side:
    own = found.rows[i] >= 0
    return _Side(EntityRows(found.rows[i][own]), found.scores[i][own], found.places[i][own])


def _with_others(side: _Side, index: EntityIndex, query: np.ndarray, rows: EntityRows) -> _Side:
    """`side`, followed by those of `rows` that it has not found and that have a vector."""
    others = EntityRows(np.setdiff1d(rows, side.rows))
    if not len(others):
        return side
    more = index.similarities(query, others)
    return _Side(*(np.concatenate([a, b]) for a, b in zip(side, more, strict=True)))


def _parts_of(kind: str, side: _Side, part: str) -> dict[str, np.ndarray]:
    return {part: side.scores} | ({parts.NAME: side.places} if kind == NAMES else {})
