"""Abbreviations that a Doc defines, as in "tardive dyskinesia (TD)", and the long forms that they stand for."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

from spacy.tokens import Doc, Span

from ..kb.names.name_rules import without_full_stop

BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
WORD = re.compile(r"\w")
PLURAL = re.compile(r"(?<=\w[A-Z])s$")  # of two letters or more
BETWEEN = re.compile(r"[\s\-/\u2010-\u2015]*")  # the parts of a long form
SAID = re.compile(r"[A-Z0-9]")
PART = re.compile(r"[^\W_]+")  # of a word: what hyphens and the like leave of it
SMALL = {"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"}
LONGEST = 10  # letters of a short form
FORMS = ("short", "long")  # as the keys of scispaCy's dicts begin
REACH = 1000  # characters before a bracket in which a long form is looked for

LongForms = dict[tuple[int, int], Span]


def long_forms(doc: Doc) -> LongForms:
    """Return the long form of each short form in `doc`, by the tokens (start, end) of the short form.

    If scispaCy's `abbreviation_detector` found abbreviations in `doc`, those are used; else those of `defined`.
    Its dicts are not used where tokens were merged or split since: the places that they name are then of other tokens.
    """
    return _detected(doc) or _everywhere(doc)


def defined(doc: Doc) -> dict[str, Span]:
    """Return the short forms that stand in brackets behind their long forms, each with the first of these.

    After Schwartz & Hearst 2003, *A simple algorithm for identifying abbreviation definitions in biomedical text*: the
    letters and digits of the short form are looked for in the words before the bracket, from the last to the first,
    which has to begin a word. Where each of them begins a word, these words are the long form: "combined oral
    contraceptives (COCs)", and not the last of the three, which has the letters too. Of the bracket, what stands before
    a comma or semicolon is read, and before a colon, if it has a capital or a digit.
    """
    found: dict[str, Span] = {}
    text = doc.text
    for bracket in BRACKETS.finditer(text):
        short = re.split("[,;]", bracket[1])[0].strip()
        head = short.split(":")[0].strip()
        if SAID.search(head):
            short = head
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
    found = doc._.abbreviations
    if not isinstance(found, list | tuple):
        if found is not None:
            say_so()
        return {}
    if any(_is_moved(doc, short) for short in found):
        return {}
    read = [_read(doc, short) for short in found]
    if None in read:
        say_so()
    return dict(filter(None, read))


def _read(doc: Doc, short: Any) -> tuple[tuple[int, int], Span] | None:
    """Return the tokens of a short form and its long form, as scispaCy has them; None for anything else."""
    if isinstance(short, Span):
        long = short._.long_form if Span.has_extension("long_form") else None
        if not (isinstance(long, Span) and long.doc is short.doc is doc and len(long)):
            return None
        return _place_and_form(_as_tokens_are(short), _as_tokens_are(long))
    return _place_and_form(*(_form(doc, short, which) for which in FORMS))


def _place_and_form(short: Span | None, long: Span | None) -> tuple[tuple[int, int], Span] | None:
    return None if short is None or long is None else ((short.start, short.end), long)


def _form(doc: Doc, found: Any, which: str) -> Span | None:
    """One of the `FORMS`, as scispaCy's `make_serializable` has it."""
    if not isinstance(found, dict):
        return None
    start, end = (found.get(f"{which}_{side}") for side in ("start", "end"))
    return doc[start:end] if type(start) is type(end) is int and 0 <= start < end <= len(doc) else None


def _as_tokens_are(span: Span) -> Span | None:
    """The tokens that the characters of `span` are in, since some may have been merged or split after it was made."""
    return span.doc.char_span(span.start_char, span.end_char, alignment_mode="expand")


def _is_moved(doc: Doc, short: Any) -> bool:
    """Whether other tokens stand where a dict of scispaCy has its forms, as where some were merged later."""
    if not isinstance(short, dict):
        return False
    texts = {which: short.get(f"{which}_text") for which in FORMS}
    return any(text and getattr(_form(doc, short, which), "text", "") != text for which, text in texts.items())


@cache
def say_so() -> None:
    """Warn, once, that `doc._.abbreviations` has what scispaCy would not put there."""
    warnings.warn(
        "doc._.abbreviations is an extension that pel_linker reads where scispaCy's abbreviation_detector has filled "
        "it, with spans or dicts; what is something else there is passed over.",
        stacklevel=2,
    )


def _everywhere(doc: Doc) -> LongForms:
    """Return where the short forms stand that `doc` defines, as whole tokens."""
    forms = defined(doc)
    if not forms:
        return {}
    for short, long in list(forms.items()):
        forms.setdefault(_other_number(short), long)
    text, found = doc.text, {}
    reach = max(map(len, forms))
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    free = dict.fromkeys(forms, 0)  # behind the last place of each: of places that overlap the first counts
    for first, start in enumerate(starts):
        for last in range(first, len(doc)):
            if ends[last] > start + reach + 1:
                break
            form = text[start : ends[last]]
            if form[-1:] == "." and form not in forms:
                form = without_full_stop(form)
            end = start + len(form)
            if form in forms and free[form] <= start and _stands_alone(text, start, end):
                found[first, last + 1] = forms[form]
                free[form] = end
    return found


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (WORD.match(text[start - 1 : start]) or WORD.match(text[end : end + 1]))


def _is_short_form(text: str) -> bool:
    return 2 <= len(text) <= LONGEST and len(text.split()) <= 2 and text[0].isalnum() and any(map(str.isalpha, text))


def _other_number(short: str) -> str:
    """Return the plural of a short form, "OCs" of "OC", or its singular; itself where it has none."""
    if PLURAL.search(short):
        return short[:-1]
    return f"{short}s" if short[-1].isupper() else short


def _start_of_long_form(short: str, before: str) -> int | None:
    """Return where in `before` the long form begins that reaches to its end; None where there is none."""
    words = list(re.finditer(r"\S+", before))[-min(len(short) + 5, 2 * len(short)) :]
    if not words:
        return None
    at = _first_of_initials(short, before, words[0].start())
    if at is None:
        at = _first_letter(short, before, words[0].start())
    if at is None:
        return None
    start = _start_of_word(words, at)
    long = before[start:]
    return start if len(long) > len(short) and short not in long.split() else None


def _first_of_initials(short: str, before: str, first: int) -> int | None:
    """Return where in `before`, from `first` on, the first of the words begins whose initials are the letters of
    `short`, up to the end, with nothing but blanks, hyphens and small words between; None where there are no such
    words."""
    letters = [letter for letter in PLURAL.sub("", short).lower() if letter.isalnum()]
    if len(letters) < 2:
        return None
    behind = len(before)
    for part in reversed(list(PART.finditer(before, first))):
        if not BETWEEN.fullmatch(before, part.end(), behind):
            return None
        behind = part.start()
        if part[0][0].lower() == letters[-1]:
            letters.pop()
            if not letters:
                return behind
        elif part[0].lower() not in SMALL or part.end() == len(before):
            return None
    return None


def _first_letter(short: str, before: str, first: int) -> int | None:
    """Return where in `before`, from `first` on, the first letter of `short` stands if its letters are looked for from
    the last to the first, which has to begin a word; None where one is missing."""
    at = len(before)
    for i, letter in reversed(list(enumerate(short.lower()))):
        if letter.isalnum():
            at -= 1
            while at >= first and not (before[at].lower() == letter and (i or not before[:at][-1:].isalnum())):
                at -= 1
            if at < first:
                return None
    return at


def _start_of_word(words: list[re.Match[str]], at: int) -> int:
    """Return where that one of `words` begins that has the character `at`."""
    return next(word.start() for word in reversed(words) if word.start() <= at)
