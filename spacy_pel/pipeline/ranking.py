"""A ranker at work: which mentions are ranked anew, what their candidates score, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from spacy.tokens import Span
from spacy.util import minibatch
from thinc.api import Model
from tqdm import tqdm

from ..kb.entity import Entity
from ..mentions.links import Link
from ..models.cross_encoder import score_pairs
from ..search.find import reread
from ..tuning.ranking import RankTuned, decided, in_order, is_doubtful
from .notices import warn_of_no_probabilities, warn_of_other_scores

AT_ONCE = 256  # mentions whose pairs are made at once


class CanRank(Protocol):
    """What ranks: a `pel_ranker`."""

    name: str
    model: Model
    settings: Any
    tuned: RankTuned

    @property
    def in_force(self) -> RankTuned: ...

    def require_linker(self) -> Any: ...


def rerank(ranker: CanRank, spans: Sequence[Span], links: Sequence[Link]) -> list[Link]:
    """See `PelRanker.rerank`."""
    linker = ranker.require_linker()
    warn_of_other_scores(ranker)
    below = doubted_below(ranker)
    if below is not None and any(link.candidates and link.probability is None for link in links):
        warn_of_no_probabilities(ranker.name, linker.name)
    doubtful = [i for i, link in enumerate(links) if link.candidates and is_doubtful(link, below)]
    found = scores_of(ranker, [spans[i] for i in doubtful], [links[i] for i in doubtful])
    scores = {i: own for i, own in zip(doubtful, found, strict=True) if np.isfinite(own).any()}  # others: not in the KB
    ranked = list(links)
    chosen = in_order([links[i] for i in scores], list(scores.values()), ranker.tuned.weight)
    for i, link in zip(scores, decided(*chosen, ranker.in_force), strict=True):
        ranked[i] = link
    return ranked


def doubted_below(ranker: CanRank) -> float | None:
    """The probability of the linker under which a mention is ranked anew; None: all are."""
    setting = ranker.settings.rerank_below
    return ranker.tuned.rerank_below if setting == "tuned" else setting


def scores_of(
    ranker: CanRank, spans: Sequence[Span], links: Sequence[Link], *, progress: bool = False
) -> list[np.ndarray]:
    """What the first `top_n` candidates of each mention score (c,); -inf where the KB has lost one meanwhile.

    Args:
        ranker: With weights and a linker.
        spans: The mentions.
        links: What the linker says of each, and has read of it.
        progress: Whether to show a bar.
    """
    linker = ranker.require_linker()
    read = reread(spans, [link.read for link in links], linker.reading)
    scores: list[np.ndarray] = []
    with tqdm(total=len(links), desc="Ranking", unit=" mentions", disable=None if progress else True) as bar:
        for batch in minibatch(zip(read, links, strict=True), AT_ONCE):
            scores += _scores(ranker, linker.kb, batch)
            bar.update(len(batch))
    return scores


def _scores(ranker: CanRank, kb: Any, batch: Sequence[tuple[Span, Link]]) -> Iterator[np.ndarray]:
    ids = [[id_ for id_, _ in link.candidates[: ranker.settings.top_n]] for _, link in batch]
    entities: dict[str, Entity] = kb.get_many(id_ for own in ids for id_ in own)
    candidates = [[entities[id_] for id_ in own if id_ in entities] for own in ids]
    flat = iter(score_pairs(ranker.model, [span for span, _ in batch], candidates).tolist())
    for own in ids:
        yield np.array([next(flat) if id_ in entities else -np.inf for id_ in own])
