"""Mentions in brackets right behind another, as in "lomustine (CCNU)": two names of one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from spacy.tokens import Span

OPENING = re.compile(r"\s*[(\[]\s*")
END = re.compile(r"\s*[)\],;:]")


def other_names(mentions: Sequence[Span]) -> dict[str, Span]:
    """Return, by its text, the mention that a Doc gives as another name of the same thing: the one in brackets right
    behind it, or the one right before its brackets. Both must have the same label. Where there are several, the first
    counts.

    Args:
        mentions: Of one Doc, in any order.
    """
    if not mentions:
        return {}
    text, beginning = mentions[0].doc.text, defaultdict(list)
    for mention in mentions:
        beginning[mention.start_char].append(mention)
    found: dict[str, Span] = {}
    for before in sorted(mentions, key=lambda one: one.start):
        bracket = OPENING.match(text, before.end_char)
        for inside in beginning[bracket.end()] if bracket else ():
            if inside.label == before.label and inside.text != before.text and END.match(text, inside.end_char):
                found.setdefault(before.text, inside)
                found.setdefault(inside.text, before)
    return found
