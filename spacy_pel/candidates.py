"""Mentions in, their best entities out: encoded, searched and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from spacy.tokens import Span
from thinc.api import Model

from .hybrid_search import hybrid_search
from .kb.knowledge_base import KnowledgeBase
from .lexical import Weights
from .models.bi_encoder import encode_mentions, row_builder

Candidates = list[tuple[str, float]]
UNREADABLE = -1


def find_candidates(
    model: Model,
    kb: KnowledgeBase,
    search: Callable[[np.ndarray, int, np.ndarray | None], tuple[np.ndarray, np.ndarray]],
    spans: Sequence[Span],
    k: int,
    *,
    keep: int | None = None,
    types: Sequence[frozenset[str] | None],
    lexical: Weights | None = None,
) -> list[Candidates]:
    """The first `keep` of the `k` best entities of every span, as `(id, score)`, best first. A span without any word
    piece has none.

    search: `kb.search`, or another over the rows of `kb`.
    types: for every span the types that its entity may have; None: any.
    lexical: instead of `search`, `hybrid_search` with these weights.
    """
    found: list[Candidates] = [[] for _ in spans]
    for allowed in dict.fromkeys(types):
        numbers = [i for i, own in enumerate(types) if own == allowed]
        vectors, places = encode_distinct(model, [spans[i] for i in numbers])
        if not len(vectors):
            continue
        within = None if allowed is None else kb.rows_of_types(allowed)
        if lexical is None:
            scores, rows = search(vectors, k, within)
        else:
            first = {place: spans[i].text for i, place in zip(numbers[::-1], places[::-1].tolist(), strict=True)}
            texts = [first[place] for place in range(len(vectors))]
            scores, rows = hybrid_search(kb, texts, vectors, k, within, lexical)
        ids = kb.ids(rows[:, :keep]).tolist()
        candidates = [
            [(id_, score) for id_, score in zip(own_ids, own_scores[:keep], strict=True) if id_]
            for own_ids, own_scores in zip(ids, scores.tolist(), strict=True)
        ]
        for i, place in zip(numbers, places.tolist(), strict=True):
            found[i] = [] if place == UNREADABLE else list(candidates[place])
    return found


def encode_distinct(model: Model, spans: Sequence[Span]) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (d, hidden) float32 of the distinct rows of `spans`, and for every span (n,) which is its own, or
    `UNREADABLE` where it has no word piece."""
    distinct, inverse = row_builder(model).mentions(spans).unique()
    readable = distinct.lengths.nonzero()[0]
    numbers = np.full(len(distinct), UNREADABLE)
    numbers[readable] = np.arange(len(readable))
    return encode_mentions(model, distinct.take(readable)), numbers[inverse]
