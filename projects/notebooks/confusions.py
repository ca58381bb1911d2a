"""Gold mentions that were linked to another entity, and what the two have to do with the mention's letters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names.normal_form import normalized
from spacy_pel.mentions.gold import GoldMention
from spacy_pel.mentions.links import RankedIds

SAME, SOME, NONE = "a name", "some words", "no word"


class Ranked(NamedTuple):
    """A gold mention that has an entity in the KB, and what it was linked to.

    rank: of the first right candidate, from 1; None: it is not among them. gold: that candidate's id, else the first
    right one. overlap, linked_overlap: of the mention with the names of the gold entity and of that it was linked to.
    seen: training had a mention of the entity.
    """

    mention: GoldMention
    gold: str
    linked: str
    score: float
    rank: int | None
    overlap: str
    linked_overlap: str
    seen: bool

    @property
    def is_right(self) -> bool:
        return self.rank == 1


def rank(
    mentions: Iterable[GoldMention], candidates: Iterable[RankedIds], kb: KnowledgeBase, train_ids: Container[str]
) -> list[Ranked]:
    """Mentions without an entity in the KB are left out, and those without a candidate."""
    ranked = []
    for mention, found in zip(mentions, candidates, strict=True):
        known = [id_ for id_ in mention.ids if id_ in kb]
        if known and found:
            hit = next((i for i, (id_, _) in enumerate(found) if id_ in known), None)
            gold = known[0] if hit is None else found[hit][0]
            linked, score = found[0]
            overlaps = [alias_overlap(mention.span.text, kb[id_]) for id_ in (gold, linked)]
            seen = any(id_ in train_ids for id_ in known)
            ranked.append(Ranked(mention, gold, linked, score, None if hit is None else hit + 1, *overlaps, seen))
    return ranked


def alias_overlap(text: str, entity: Entity) -> str:
    """Whether `text` is one of the entity's names, case and punctuation set aside, or shares words with one."""
    words = normalized(text).split()
    names = [normalized(name).split() for name in (entity.name, *entity.aliases)]
    if words in names:
        return SAME
    return SOME if any(set(words) & set(name) for name in names) else NONE


def kind(ranked: Ranked) -> str:
    """What sort of mistake it looks like, by letters alone."""
    if len(ranked.mention.span.text) <= 5 and ranked.mention.span.text.isupper():
        return "an abbreviation"
    if ranked.overlap == ranked.linked_overlap == SAME:
        return "a name of both"
    if ranked.overlap == SAME:
        return "a name of the gold one, passed over"
    if ranked.linked_overlap == SAME:
        return "a name of the wrong one only"
    return "a name of neither"


def share(ranked: Sequence[Ranked], k: int = 1) -> float:
    """Of `ranked`, those with a right candidate among the first `k`."""
    return sum(one.rank is not None and one.rank <= k for one in ranked) / len(ranked) if ranked else float("nan")
