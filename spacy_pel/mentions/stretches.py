"""Stretches of tokens, with the normalised forms under which names are looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from spacy.tokens import Doc

from ..kb.names.normal_form import fold, in_words, normalized

KEPT = 20_000  # normalised tokens
CLOSING = {")": "(", "]": "[", "}": "{"}
BRACKETS = re.compile(r"[()\[\]{}]")


class Stretch(NamedTuple):
    """Some tokens in a row.

    Attributes:
        start: The first.
        end: The one behind the last.
        form: Their normalised text.
    """

    start: int
    end: int
    form: str


class _Token(NamedTuple):
    """A token, normalised. begins, ends: whether its first and last characters are of words."""

    form: str
    begins: bool
    ends: bool


def stretches(doc: Doc, most: int) -> Iterator[Stretch]:
    """Every stretch of up to `most` tokens of `doc` that begins and ends with a token of letters or digits, and the
    same with the brackets beside it that belong to brackets in it: "iron(II" and "iron(II)"."""
    text, places = _normalized(doc)
    partners = _partners(doc)
    words = {place for place, _, _ in places}
    before, behind = (_reach(partners, words, step) for step in (1, -1))
    for place, (first, begin, _) in enumerate(places):
        for last, _, end in places[place : place + most]:
            if last - first >= most:
                break
            one = Stretch(first, last + 1, text[begin:end])
            yield one
            if first - 1 in before or one.end in behind:
                closed = _closed(one, partners, before, behind)
                if closed is not one and closed.end - closed.start <= most:
                    yield closed


def _reach(partners: dict[int, int], words: set[int], step: int) -> dict[int, int]:
    """The brackets whose partner lies in the direction of `step`, by their own token and by those before the next word
    or bracket in that direction, as the sign of "(CD4+)"."""
    reached: dict[int, int] = {}
    for bracket, partner in partners.items():
        for place in range(bracket, partner, step):
            if place != bracket and (place in words or place in partners):
                break
            reached[place] = bracket
    return reached


def _closed(one: Stretch, partners: dict[int, int], before: dict[int, int], behind: dict[int, int]) -> Stretch:
    """A stretch with the brackets beside it whose partners are within; the same where there are none."""
    start, end, _ = one
    while (bracket := behind.get(end)) is not None and start <= partners[bracket] < end:
        end = bracket + 1
    while (bracket := before.get(start - 1)) is not None and start <= partners[bracket] < end:
        start = bracket
    return one if (start, end) == one[:2] else one._replace(start=start, end=end)


def _partners(doc: Doc) -> dict[int, int]:
    """The tokens of `doc` that are a bracket, each with the token of the bracket that closes or opens it."""
    partners: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    for place, bracket in ((token.i, one) for token in doc for one in BRACKETS.findall(token.text)):
        if bracket not in CLOSING:
            opened.append((bracket, place))
        elif opened and opened[-1][0] == CLOSING[bracket]:
            _, partner = opened.pop()
            partners |= {place: partner, partner: place}
    return {place: partner for place, partner in partners.items() if len(doc[place]) == 1}


def _normalized(doc: Doc) -> tuple[str, list[tuple[int, int, int]]]:
    """The normalised text of `doc`, and of its tokens with letters or digits the number, beginning and end in it."""
    parts: list[str] = []
    places: list[tuple[int, int, int]] = []
    length, glued = 0, False
    for token in doc:
        form, begins, ends = _token(token.text)
        if form:
            space = "" if glued and begins else " "
            begin = length + len(space)
            length = begin + len(form)
            parts += space, form
            places.append((token.i, begin, length))
        glued = ends and not token.whitespace_
    return "".join(parts), places


@lru_cache(maxsize=KEPT)
def _token(text: str) -> _Token:
    folded = fold(text)
    of_words = list(in_words(folded)) or [False]
    return _Token(normalized(text) if any(of_words) else "", of_words[0], of_words[-1])
