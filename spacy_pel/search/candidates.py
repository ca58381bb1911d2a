"""Mentions in, their best entities out: encoded, searched and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from spacy.tokens import Span
from thinc.api import Model

from ..kb.index.entity_index import EntityIndex
from ..kb.knowledge_base import KnowledgeBase
from ..kb.numbering import EntityRows
from ..mentions.links import Candidates
from ..models.bi_encoder import encode_mentions, row_builder
from .hybrid import hybrid_search
from .weights import Weights

UNREADABLE = -1


def find_candidates(
    model: Model,
    kb: KnowledgeBase,
    search: Callable[[np.ndarray, int, EntityRows | None], tuple[np.ndarray, EntityRows]],
    spans: Sequence[Span],
    k: int,
    *,
    keep: int,
    types: Sequence[frozenset[str] | None],
    lexical: Weights | None = None,
    index: EntityIndex | None = None,
) -> list[Candidates]:
    """The first `keep` of the `k` best entities of every span, as `(id, score)`, best first. A span without any word
    piece has none.

    search: that of an index of `kb`, or another over the rows of `kb`.
    types: for every span the types that its entity may have; None: any.
    lexical: `hybrid_search` with these weights, by `search` and in `index`, instead of `search` alone.
    """
    found: list[Candidates] = [[] for _ in spans]
    for numbers, within in by_types(kb, types):
        vectors, places = encode_distinct(model, [spans[i] for i in numbers])
        if not len(vectors):
            continue
        if lexical is None or index is None:
            scores, rows = search(vectors, k, within)
        else:
            text_of = dict(zip(places.tolist(), (spans[i].text for i in numbers), strict=True))
            texts = [text_of[place] for place in range(len(vectors))]
            scores, rows = hybrid_search(kb, search, index, texts, vectors, k, within, lexical)
        ids = kb.ids(EntityRows(rows[:, :keep])).tolist()
        candidates = [
            [(id_, score) for id_, score in zip(own_ids, own_scores[:keep], strict=True) if id_]
            for own_ids, own_scores in zip(ids, scores.tolist(), strict=True)
        ]
        for i, place in zip(numbers, places.tolist(), strict=True):
            found[i] = [] if place == UNREADABLE else list(candidates[place])
    return found


def by_types(
    kb: KnowledgeBase, types: Sequence[frozenset[str] | None]
) -> Iterator[tuple[list[int], EntityRows | None]]:
    """The places in `types` that have the same types, and the rows of these, for each of them that there are."""
    for allowed in dict.fromkeys(types):
        numbers = [i for i, own in enumerate(types) if own == allowed]
        yield numbers, None if allowed is None else kb.rows_of_types(allowed)


def encode_distinct(model: Model, spans: Sequence[Span]) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (d, hidden) float32 of the distinct `spans`, and for every span (n,) which is its own, or
    `UNREADABLE` where it has no word piece. Spans are the same if their rows and their texts are: a row that was cut,
    or has a piece that the encoder does not know, can be that of several texts."""
    rows, row_of = row_builder(model).mentions(spans).unique()
    lengths = rows.lengths
    readable = lengths.nonzero()[0]
    encoded = encode_mentions(model, rows.take(readable))
    numbers: dict[tuple[int, str], int] = {}
    places = np.full(len(spans), UNREADABLE)
    for i in lengths[row_of].nonzero()[0].tolist():
        places[i] = numbers.setdefault((row_of[i], spans[i].text), len(numbers))
    return encoded[np.searchsorted(readable, [row for row, _ in numbers])], places
