"""Which names of a KB find mentions in texts, and of which the case counts: for rulers and for `pel_finder`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from .normal_form import normalized

LONGEST_ABBREVIATION = 5
MIN_LENGTH = 3
LABEL = "ENTITY"


@dataclass(frozen=True)
class NameRules:
    """What is looked for in texts.

    Attributes:
        min_length: Shorter names are not, nor are names without a letter.
        stop_words: Lower-case words that are not, as whole names.
    """

    min_length: int = MIN_LENGTH
    stop_words: Container[str] = ()

    def allow(self, name: str) -> bool:
        """Whether this name is looked for."""
        return len(name) >= self.min_length and name.lower() not in self.stop_words and any(map(str.isalpha, name))

    def fit(self, name: str, text: str) -> bool:
        """Whether this name of an entity finds `text`."""
        is_same = name == text if is_abbreviation(name) else normalized(name) == normalized(text)
        return is_same and self.allow(name)


def is_abbreviation(name: str) -> bool:
    """Whether it is up to five capitals: in another case that would be another word."""
    return name.isalpha() and name.isupper() and len(name) <= LONGEST_ABBREVIATION


def may_be_abbreviation(text: str) -> bool:
    """Whether a name with the normalised form of `text` can be an abbreviation."""
    return is_abbreviation(normalized(text).upper())
