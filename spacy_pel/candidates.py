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
        distinct, inverse = row_builder(model).mentions([spans[i] for i in numbers]).unique()
        readable = distinct.lengths.nonzero()[0]
        if not len(readable):
            continue
        within = None if allowed is None else kb.rows_of_types(allowed)
        vectors = encode_mentions(model, distinct.take(readable))
        if lexical is None:
            scores, rows = search(vectors, k, within)
        else:
            first = {i: spans[number].text for number, i in zip(numbers[::-1], inverse[::-1], strict=True)}
            scores, rows = hybrid_search(kb, [first[i] for i in readable], vectors, k, within, lexical)
        ids = kb.ids(rows[:, :keep]).tolist()
        candidates: list[Candidates] = [[] for _ in range(len(distinct))]
        for i, own_ids, own_scores in zip(readable, ids, scores.tolist(), strict=True):
            candidates[i] = [(id_, score) for id_, score in zip(own_ids, own_scores[:keep], strict=True) if id_]
        for number, i in zip(numbers, inverse, strict=True):
            found[number] = list(candidates[i])
    return found
