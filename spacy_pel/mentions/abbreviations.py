"""Abbreviations that a Doc defines, as in "tardive dyskinesia (TD)", and the long forms that they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spacy.tokens import Doc, Span

BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
LONGEST = 10  # letters of a short form
REACH = 1000  # characters before a bracket in which a long form is looked for

LongForms = dict[tuple[int, int], Span]


def long_forms(doc: Doc) -> LongForms:
    """Return the long form of each short form in `doc`, by the tokens (start, end) of the short form.

    If scispaCy's `abbreviation_detector` found abbreviations in `doc`, those are used; else those of `defined`.
    """
    return _detected(doc) or _everywhere(doc)


def defined(doc: Doc) -> dict[str, Span]:
    """Return the short forms that stand in brackets behind their long forms, each with the first of these.

    After Schwartz & Hearst 2003, *A simple algorithm for identifying abbreviation definitions in biomedical text*: the
    letters and digits of the short form are looked for in the words before the bracket, from the last to the first,
    which has to begin a word. Of the bracket, what stands before a comma or semicolon is read.
    """
    found: dict[str, Span] = {}
    text = doc.text
    for bracket in BRACKETS.finditer(text):
        short = re.split("[,;]", bracket[1])[0].strip()
        if short not in found and _is_short_form(short):
            reach = max(0, bracket.start() - REACH)
            before = text[reach : bracket.start()].rstrip()
            start = _start_of_long_form(short, before)
            end = reach + len(before)
            long = None if start is None else doc.char_span(reach + start, end, alignment_mode="expand")
            if long is not None:
                found[short] = long
    return found


def _detected(doc: Doc) -> LongForms:
    if not Doc.has_extension("abbreviations"):
        return {}
    found = {}
    for short in doc._.abbreviations:
        if isinstance(short, dict):  # its `make_serializable`
            found[short["short_start"], short["short_end"]] = doc[short["long_start"] : short["long_end"]]
        else:
            found[short.start, short.end] = short._.long_form
    return found


def _everywhere(doc: Doc) -> LongForms:
    text = doc.text
    return {
        (span.start, span.end): long for short, long in defined(doc).items() for span in _occurrences(doc, text, short)
    }


def _occurrences(doc: Doc, text: str, form: str) -> Iterator[Span]:
    """Yield where `form` stands in `doc`, whose text is `text`, as whole tokens."""
    for match in re.finditer(rf"(?<!\w){re.escape(form)}(?!\w)", text):
        if (span := doc.char_span(*match.span())) is not None:
            yield span


def _is_short_form(text: str) -> bool:
    return 2 <= len(text) <= LONGEST and len(text.split()) <= 2 and text[0].isalnum() and any(map(str.isalpha, text))


def _start_of_long_form(short: str, before: str) -> int | None:
    """Return where in `before` the long form begins that reaches to its end; None where there is none."""
    words = list(re.finditer(r"\S+", before))[-min(len(short) + 5, 2 * len(short)) :]
    if not words:
        return None
    first, at = words[0].start(), len(before)
    for i, letter in reversed(list(enumerate(short.lower()))):
        if letter.isalnum():
            at -= 1
            while at >= first and not (before[at].lower() == letter and (i or not before[:at][-1:].isalnum())):
                at -= 1
            if at < first:
                return None
    start = next(word.start() for word in reversed(words) if word.start() <= at)
    long = before[start:]
    return start if len(long) > len(short) and short not in long.split() else None
