"""Texts in the plural, read in the singular: vocabularies name things in the singular.

The names of a KB tell which reading is right, so every likely one is offered. A stemmer or a lemmatizer gives one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

LEAST = 4  # letters that a plural ends with: "cis" and "ras" are none
NO_PLURAL = ("is", "ss", "us")
ENDINGS = {
    "en": (
        ("s", ""),
        ("ies", "y"),
        ("ses", "s"),
        ("xes", "x"),
        ("hes", "h"),
        ("ses", "sis"),
        ("tes", "tis"),
        ("xes", "xis"),
        ("ae", "a"),
        ("i", "us"),
        ("a", "um"),
        ("a", "on"),
    )
}
LAST = {lang: tuple({plural[-1] for plural, _ in endings}) for lang, endings in ENDINGS.items()}
KEPT = 20_000  # endings of texts


def plurals(texts: Iterable[str], lang: str) -> dict[str, list[str]]:
    """Those of `texts` that may be plurals, with their `singulars`."""
    last = LAST.get(lang, ())
    return {text: own for text in texts if text.endswith(last) and (own := singulars(text, lang))}


def singulars(text: str, lang: str) -> list[str]:
    """What `text` may be the plural of, by the ending of its last word. Most of that is no word: a KB has the names.

    Args:
        text: If its last word is in capitals, none: that S may stand for a word of its own. If it begins with one, only
            by an "s": "California" is not many californium.
        lang: The code of its language. Only the plurals of English ("en") are known.
    """
    if not text.endswith("s") and text[text.rfind(" ") + 1 :][:1].isupper():
        return []
    endings = _endings(text[-LEAST:], lang)
    return [text[:-length] + singular for length, singular in endings] if endings else []


@lru_cache(maxsize=KEPT)
def _endings(end: str, lang: str) -> tuple[tuple[int, str], ...]:
    """Of the last characters of a text, how many are of a plural, and what they are in the singular."""
    if len(end) < LEAST or not end.isalpha() or end.endswith(NO_PLURAL):
        return ()
    return tuple((len(plural), singular) for plural, singular in ENDINGS.get(lang, ()) if end.endswith(plural))
