"""What the gold standard says about the mentions of a Doc."""

from __future__ import annotations

from typing import NamedTuple

from spacy.tokens import Doc, Span

GOLD_GROUP = "gold_mentions"
NIL = "NIL"


class GoldMention(NamedTuple):
    """A mention and its correct ids: `()` where nobody annotated it, `("NIL",)` where the annotators found no id, else
    every id that counts as correct."""

    span: Span
    ids: tuple[str, ...]

    @property
    def is_linked(self) -> bool:
        """Whether it has an id to learn from: annotated, and not NIL."""
        return bool(self.ids) and self.ids != (NIL,)


def gold_mentions(doc: Doc) -> list[GoldMention]:
    """The mentions of `doc.spans["gold_mentions"]` where the Doc has that group (it may hold nested and overlapping
    ones), else its entities. A `kb_id_` of `"A|B"` gives the ids A and B."""
    spans = doc.spans.get(GOLD_GROUP, doc.ents)
    return [GoldMention(span, tuple(filter(None, span.kb_id_.split("|")))) for span in spans]
