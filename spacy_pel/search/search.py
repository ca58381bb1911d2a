"""What a search is: mentions in, scored entities with the parts of their scores out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple, Protocol

import numpy as np
from spacy.tokens import Span

from ..kb.numbering import EntityRows
from ..kb.several import Vectors
from ..kb.stretches import stretches
from ..mentions.links import RankedIds
from .parts import SIMILARITY


class Queries(NamedTuple):
    """Mentions to search for, at least one.

    Attributes:
        texts: Their texts, q of them.
        vectors: Their vectors (q, d) float32, or `Several` each.
        lang: The code of their language.
    """

    texts: Sequence[str]
    vectors: Vectors
    lang: str = ""


class Scored(NamedTuple):
    """The entities that a search has found for q queries, in flat arrays: those of one query in a row, best first.

    Attributes:
        starts: Where those of each query begin (q,).
        counts: How many each query has (q,).
        rows: Their rows (n,) in the KB.
        scores: Their scores (n,) float32.
        parts: What each score is made of, by name (see `search.parts`), (n,) each.
    """

    starts: np.ndarray
    counts: np.ndarray
    rows: EntityRows
    scores: np.ndarray
    parts: Mapping[str, np.ndarray]

    def first(self, k: int | None) -> Scored:
        """The `k` best of each query, those of the first query first; None for all."""
        counts = self.counts if k is None else np.minimum(self.counts, k)
        return self._taken(stretches(self.starts, counts), counts)

    def only(self, wanted: np.ndarray) -> Scored:
        """Those that are `wanted` (n,) bool, where those of the first query come first."""
        queries = np.repeat(np.arange(len(self.counts)), self.counts)[wanted]
        return self._taken(wanted.nonzero()[0], np.bincount(queries, minlength=len(self.counts)))

    def _taken(self, chosen: np.ndarray, counts: np.ndarray) -> Scored:
        parts = {name: values[chosen] for name, values in self.parts.items()}
        return Scored(np.cumsum(counts) - counts, counts, EntityRows(self.rows[chosen]), self.scores[chosen], parts)


class Search(Protocol):
    """A way to search a KB."""

    def __call__(self, queries: Queries, k: int, within: EntityRows | None = None) -> Scored:
        """Search for the best entities of every query.

        Args:
            queries: The mentions.
            k: How deep to search; what is found may be more (from several sides) or less (of a small KB).
            within: The rows to search in, ascending; None for all.

        Raises:
            PelError: Without vectors of this encoder.
        """
        ...


class VectorSearch:
    """A search by inner product alone.

    Args:
        search: From the vectors of q queries, k and the rows to search in to scores (q, k) and rows (q, k), best first,
            with row -1 where there are fewer.
    """

    def __init__(self, search: Callable[[Vectors, int, EntityRows | None], tuple[np.ndarray, EntityRows]]) -> None:
        self._search = search

    def __call__(self, queries: Queries, k: int, within: EntityRows | None = None) -> Scored:
        scores, rows = self._search(queries.vectors, k, within)
        starts, counts = np.arange(len(rows)) * rows.shape[1], (rows >= 0).sum(axis=1)
        return Scored(starts, counts, EntityRows(rows.ravel()), scores.ravel(), {SIMILARITY: scores.ravel()})


class Found(NamedTuple):
    """The candidates of one mention, best first.

    Attributes:
        ids: Their ids.
        scores: Their scores (n,) float32.
        parts: What each score is made of, by name (see `search.parts`), (n,) each.
        read: What was read of the text: the mention, its long form or its other name.
        evidence: What the search says of the mention, see `search.evidence` (e,); None of one that cannot be read.
    """

    ids: list[str]
    scores: np.ndarray
    parts: Mapping[str, np.ndarray]
    read: Span
    evidence: np.ndarray | None = None

    def only(self, wanted: np.ndarray) -> Found:
        """With the candidates alone that are `wanted` (n,) bool."""
        parts = {name: own[wanted] for name, own in self.parts.items()}
        return self._replace(ids=list(compress(self.ids, wanted)), scores=self.scores[wanted], parts=parts)

    @property
    def ranked(self) -> RankedIds:
        """The candidates as (id, score)."""
        return list(zip(self.ids, self.scores.tolist(), strict=True))

    @property
    def top_score(self) -> float:
        """The best score; -inf without a candidate, so any threshold gives NIL."""
        return float(self.scores[0]) if len(self.scores) else float("-inf")
