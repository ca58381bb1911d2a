"""Mentions in, their best entities out: encoded, searched and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from spacy.tokens import Span
from thinc.api import Model

from ..kb.knowledge_base import KnowledgeBase
from ..mentions.links import RankedIds
from ..models.bi_encoder import UNREADABLE, encode_spans
from .hybrid import hybrid_search
from .weights import Weights


def find_candidates(
    model: Model,
    kb: KnowledgeBase,
    search: Callable[[np.ndarray, int, np.ndarray | None], tuple[np.ndarray, np.ndarray]],
    spans: Sequence[Span],
    k: int,
    *,
    keep: int,
    types: Sequence[frozenset[str] | None],
    lexical: Weights | None = None,
) -> list[RankedIds]:
    """The first `keep` of the `k` best entities of every span, as `(id, score)`, best first. A span without any word
    piece has none.

    search: `kb.search`, or another over the rows of `kb`.
    types: for every span the types that its entity may have; None: any.
    lexical: instead of `search`, `hybrid_search` with these weights.
    """
    found: list[RankedIds] = [[] for _ in spans]
    for numbers, within in by_types(kb, types):
        vectors, places = encode_spans(model, [spans[i] for i in numbers])
        if not len(vectors):
            continue
        if lexical is None:
            scores, rows = search(vectors, k, within)
        else:
            text_of = dict(zip(places.tolist(), (spans[i].text for i in numbers), strict=True))
            texts = [text_of[place] for place in range(len(vectors))]
            scores, rows = hybrid_search(kb, texts, vectors, k, within, lexical)
        ids = kb.ids(rows[:, :keep]).tolist()
        candidates = [
            [(id_, score) for id_, score in zip(own_ids, own_scores[:keep], strict=True) if id_]
            for own_ids, own_scores in zip(ids, scores.tolist(), strict=True)
        ]
        for i, place in zip(numbers, places.tolist(), strict=True):
            found[i] = [] if place == UNREADABLE else list(candidates[place])
    return found


def by_types(
    kb: KnowledgeBase, types: Sequence[frozenset[str] | None]
) -> Iterator[tuple[list[int], np.ndarray | None]]:
    """The places in `types` that have the same types, and the rows of these, for each of them that there are."""
    for allowed in dict.fromkeys(types):
        numbers = [i for i, own in enumerate(types) if own == allowed]
        yield numbers, None if allowed is None else kb.rows_of_types(allowed)
