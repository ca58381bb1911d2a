"""Which names of a KB find which texts: for the patterns of rulers and for `pel_finder`."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from unicodedata import east_asian_width

from .normal_form import normalized

LONGEST_ABBREVIATION = 5
MARKS = re.compile(r"[.,;:!?()\[\]{}]")  # what parts words, or takes them aside
MIN_LENGTH = 3
LABEL = "ENTITY"


@dataclass(frozen=True)
class NameRules:
    """What is looked for in texts.

    Attributes:
        min_length: Shorter names are not, nor are names without a letter. A wide character, as of Chinese, counts for
            two.
        stop_words: Lower-case words that are not, as whole names.
    """

    min_length: int = MIN_LENGTH
    stop_words: Container[str] = ()

    def allow(self, name: str) -> bool:
        """Whether this name is looked for."""
        return _length(name) >= self.min_length and name.lower() not in self.stop_words and any(map(str.isalpha, name))

    def fit(self, name: str, text: str) -> bool:
        """Whether this name of an entity finds `text`: an abbreviation as it is written, any other name by its
        normalised form. Marks such as commas and brackets in the text must be in the name too, but for a full stop
        that a tokenizer leaves on the last word of a sentence."""
        forms = {text, without_full_stop(text)}
        return any(_is_written(name, form) for form in forms) and self.allow(name)


def without_full_stop(text: str) -> str:
    """`text` without a full stop behind a capital or a digit, which tokenizers take for that of an initial or a number:
    the last word of "She has hepatitis B." is "B."."""
    before = text[-2:-1]
    return text[:-1] if text.endswith(".") and (before.isupper() or before.isdigit()) else text


def _is_written(name: str, text: str) -> bool:
    if is_abbreviation(name):
        return name == text
    marks = MARKS.findall(text)
    return normalized(name) == normalized(text) and (not marks or marks == MARKS.findall(name))


def _length(name: str) -> int:
    return len(name) if name.isascii() else sum(1 + (east_asian_width(own) in "FW") for own in name)


def is_abbreviation(name: str) -> bool:
    """Whether it is up to five capitals: in another case that would be another word."""
    return name.isalpha() and name.isupper() and len(name) <= LONGEST_ABBREVIATION


def depends_on_writing(text: str) -> bool:
    """Whether it takes more than the normalised form of a name to tell if it finds `text`: where the name may be an
    abbreviation, and where the text has marks."""
    return is_abbreviation(normalized(text).upper()) or bool(MARKS.search(text))
