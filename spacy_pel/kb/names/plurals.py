"""Texts in the plural, read in the singular: vocabularies name things in the singular."""

from __future__ import annotations

LEAST = 4  # letters that a plural ends with: "cis" and "ras" are none
ENDINGS = {
    "en": (
        ("s", ""),
        ("ies", "y"),
        ("ses", "s"),
        ("xes", "x"),
        ("hes", "h"),
        ("es", "is"),
        ("ae", "a"),
        ("i", "us"),
        ("a", "um"),
        ("a", "on"),
    )
}
PLURALS = {lang: tuple({plural for plural, _ in endings}) for lang, endings in ENDINGS.items()}


def readings(text: str, lang: str) -> list[str]:
    """`text`, and what it may be the plural of by the ending of its last word. Most of that is no word: what of it is a
    name in a KB is meant.

    Args:
        text: Where its last word is in capitals it is no plural, since that S may stand for a word of its own.
        lang: The code of its language. Only the plurals of English ("en") are known.
    """
    if not text.endswith(PLURALS.get(lang, ())):
        return [text]
    end = text[-LEAST:]
    if len(end) < LEAST or not end.isalpha():
        return [text]
    return [text, *(text[: -len(plural)] + one for plural, one in ENDINGS[lang] if text.endswith(plural))]
