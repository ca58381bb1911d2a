"""The out-of-KB set (OKB) of Wiatrak et al. 2022: mentions of some semantic types become NIL."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from spacy.tokens import Doc, Span

from ..kb.entity import NIL
from ..mentions.gold import GOLD_GROUP, GoldMention

# UMLS semantic types, by direct typing: those under them stay.
OKB_TYPES = {
    "T041": "Mental Process",
    "T058": "Health Care Activity",
    "T059": "Laboratory Procedure",
    "T060": "Diagnostic Procedure",
    "T074": "Medical Device",
    "T089": "Regulation or Law",
    "T092": "Organization",
    "T093": "Health Care Related Organization",
    "T094": "Professional Society",
    "T097": "Professional or Occupational Group",
    "T196": "Element, Ion, or Isotope",
}


class SplitStatistics(NamedTuple):
    """Some of the mentions of a split.

    Attributes:
        mentions: How many have an id.
        entities: How many entities they name.
        seen: The share of these entities that the training text has; None without an entity.
    """

    mentions: int
    entities: int
    seen: float | None


def ids_of_types(mentions: Iterable[GoldMention], types: Set[str]) -> set[str]:
    """Return the ids of the mentions that have any of `types`, "NIL" aside. A label may name several: "T116,T123"."""
    typed = (mention for mention in mentions if not types.isdisjoint(mention.span.label_.split(",")))
    return {id_ for mention in typed for id_ in mention.ids if id_ != NIL}


def split_statistics(mentions: Iterable[GoldMention], train_ids: Set[str]) -> SplitStatistics:
    """Count the mentions that have an id; others are passed over.

    Args:
        mentions: Of the split.
        train_ids: The ids of all training mentions.
    """
    linked = [mention for mention in mentions if mention.is_linked]
    ids = {id_ for mention in linked for id_ in mention.ids}
    return SplitStatistics(len(linked), len(ids), len(ids & train_ids) / len(ids) if ids else None)


def keep(doc: Doc, mentions: Iterable[GoldMention]) -> None:
    """Leave `doc` no other gold mentions than these."""
    spans = [mention.span for mention in mentions]
    places = {(span.start, span.end, span.label) for span in spans}
    doc.spans[GOLD_GROUP] = spans
    doc.ents = [ent for ent in doc.ents if (ent.start, ent.end, ent.label) in places]


def make_nil(doc: Doc, mentions: Iterable[GoldMention], held_out: Set[str]) -> None:
    """Take the ids `held_out` from the gold mentions of `doc`. One that has no other becomes NIL, and keeps them as
    `span.id_`.

    Args:
        doc: Is changed in place.
        mentions: Those of `doc`, in its order, their ids as the KB has them (`with_successors`).
        held_out: The ids to take.
    """
    spans = [_without(mention, held_out) for mention in mentions]
    by_place = {(span.start, span.end, span.label): span for span in spans}
    doc.spans[GOLD_GROUP] = spans
    doc.ents = [by_place.get((ent.start, ent.end, ent.label), ent) for ent in doc.ents]


def _without(mention: GoldMention, held_out: Set[str]) -> Span:
    span, left = mention.span, [id_ for id_ in mention.ids if id_ not in held_out]
    lost = "" if left else "|".join(mention.ids)
    kb_id = NIL if lost else "|".join(left)
    return Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=lost)
