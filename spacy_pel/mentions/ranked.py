"""Gold mentions with the candidates that a linker found for them."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..kb.entity import NIL
from .gold import GoldMention
from .links import Link, top_score


class RankedMention(NamedTuple):
    """A gold mention and what the linker found.

    Attributes:
        gold: As in `GoldMention.ids`.
        candidates: `(id, score)`, best first.
        form: As in `GoldMention.form`.
        probability: As in `Link.probability`.
        confidence: As in `Link.confidence`.
        called_nil: Whether it was linked to NIL.
    """

    gold: tuple[str, ...]
    candidates: Sequence[tuple[str, float]]
    form: str = ""
    probability: float | None = None
    confidence: float | None = None
    called_nil: bool = False

    @classmethod
    def of(cls, mention: GoldMention, link: Link) -> RankedMention:
        """A gold mention with what a linker has made of it."""
        called_nil = link.kb_id == NIL
        return cls(mention.ids, link.candidates, mention.form, link.probability, link.confidence, called_nil)

    @property
    def top_score(self) -> float:
        """See `spacy_pel.mentions.links.top_score`."""
        return top_score(self.candidates)

    @property
    def held(self) -> float:
        """What a NIL threshold is held against: the confidence, or without one the top score."""
        return self.top_score if self.confidence is None or not self.candidates else self.confidence

    @property
    def rank(self) -> float:
        """The rank, from 1, of the first candidate that is correct; inf where none is."""
        return next((rank for rank, (id_, _) in enumerate(self.candidates, 1) if id_ in self.gold), math.inf)


def held_alike(mentions: Iterable[RankedMention]) -> bool:
    """Whether what a threshold is held against is of one kind: of all a confidence, or of all a score. A ranker that
    leaves some to a linker without confidences makes both."""
    return len({mention.confidence is None for mention in mentions if mention.candidates}) < 2


def is_nil(mentions: Sequence[RankedMention], kb_ids: Container[str]) -> np.ndarray:
    """Say for each annotated mention, (mentions,) bool, whether the KB holds none of its ids."""
    ids = {id_ for mention in mentions for id_ in mention.gold}
    known = {id_ for id_ in ids if id_ != NIL and id_ in kb_ids}
    return np.array([known.isdisjoint(mention.gold) for mention in mentions], dtype=bool)
