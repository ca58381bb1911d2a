"""Mentions in brackets right behind another, as in "lomustine (CCNU)": two names of one thing."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

from spacy.tokens import Span

OPENING = re.compile(r"[^\S\n]*\n?[^\S\n]*[(\[]\s*")
END = re.compile(r"\s*[)\],;:]")
CLOSING = re.compile(r"[)\]]")

OtherNames = dict[tuple[str, str], Span]


def other_names(mentions: Iterable[Span]) -> OtherNames:
    """Return, by its text and its label, the mention that a Doc gives as another name of the same thing: the one in
    brackets right behind it, or the one right before its brackets. Both must have the same label. A bracket with
    several mentions of that label is a list, "anticonvulsants (phenobarbital, clonidine)", and gives no name. Where
    there are several names, the first counts.

    Args:
        mentions: Of one Doc, in any order; they may overlap.
    """
    places = {(one.start_char, -one.end_char, one.label_): one for one in mentions}
    ordered = [places[place] for place in sorted(places)]
    if not ordered:
        return {}
    text = ordered[0].doc.text
    inside: dict[tuple[int, str], Span] = {}  # by beginning and label, the longest with an end of its own
    for one in ordered:
        if END.match(text, one.end_char):
            inside.setdefault((one.start_char, one.label_), one)
    starts: dict[str, list[int]] = {}
    for one in ordered:
        starts.setdefault(one.label_, []).append(one.start_char)
    found: OtherNames = {}
    for before in ordered:
        bracket = OPENING.match(text, before.end_char)
        other = inside.get((bracket.end(), before.label_)) if bracket else None
        if other is not None and other.text != before.text and not _others_follow(text, other, starts[other.label_]):
            found.setdefault((before.text, before.label_), other)
            found.setdefault((other.text, other.label_), before)
    return found


def _others_follow(text: str, mention: Span, starts: list[int]) -> bool:
    """Whether a mention begins, at one of the `starts`, between the end of this one and that of its bracket."""
    place = bisect_left(starts, mention.end_char)
    return place < len(starts) and not CLOSING.search(text, mention.end_char, starts[place] + 1)
