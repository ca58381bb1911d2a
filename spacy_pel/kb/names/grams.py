"""Names as sets of character 3-grams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .normal_form import normalized

BITS = 21  # of a code point
SIZE = 3
MIX = 0x2545F4914F6CDD1D  # odd, to hash by
TINY = 1e-9


class NameGrams(NamedTuple):
    """The distinct 3-grams of some names.

    Attributes:
        grams: (p,) int64, ascending.
        names: (p,) int64, the number of the name that has it; ascending for each 3-gram.
    """

    grams: np.ndarray
    names: np.ndarray


class Text(NamedTuple):
    """A text as an index of names sees it.

    Attributes:
        text: As it was given.
        grams: (g,) int64 its distinct 3-grams, ascending.
        numbers: (n,) the numbers of those that names of the index have, ascending.
        weights: (n,) float64, of these.
        norm: The root of the sum of the weights of all.
    """

    text: str
    grams: np.ndarray
    numbers: np.ndarray
    weights: np.ndarray
    norm: float


class Vocabulary(NamedTuple):
    """The 3-grams that an index numbers.

    Attributes:
        grams: (v,) int64, ascending.
        counts: (v,) how many names have each.
        n_names: How many names were counted.
        size: In characters, where they are not 3-grams.
    """

    grams: np.ndarray
    counts: np.ndarray
    n_names: int
    size: int = SIZE

    def text(self, text: str) -> Text:
        """`text`, once it is normalised."""
        grams = name_grams([normalized(text)], self.size).grams
        places, known = self._places(grams)
        weights = self._weights(places, known)
        norm = max(float(np.sqrt(weights.sum())), TINY)
        return Text(text, grams, places[known], weights[known], norm)

    def weights(self, grams: np.ndarray) -> np.ndarray:
        """The weights (g,) float64 of `grams` (g,), known or not."""
        return self._weights(*self._places(grams))

    def _weights(self, places: np.ndarray, known: np.ndarray) -> np.ndarray:
        counts = np.zeros(len(known), dtype=np.int64)
        counts[known] = self.counts[places[known]]
        return squared_idf(counts, self.n_names)

    def _places(self, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of each 3-gram, and whether it has one."""
        places = np.searchsorted(self.grams, grams)
        known = places < len(self.grams)
        known[known] = self.grams[places[known]] == grams[known]
        return np.where(known, places, 0), known


def name_grams(forms: Iterable[str], size: int = SIZE) -> NameGrams:
    """The 3-grams of normalised names, each with a space before and behind it.

    Args:
        forms: The names.
        size: In characters, for longer parts than 3-grams: these are hashed, and the first has but one character.
    """
    margin = " " * (size - 2)
    padded = [f"{margin}{form}{margin}" for form in forms]
    points = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    lengths = np.array([len(text) for text in padded], dtype=np.int64)
    owner = np.repeat(np.arange(len(padded)), lengths)
    grams = points[:-2] << 2 * BITS | points[1:-1] << BITS | points[2:]
    for more in range(SIZE, size):
        grams = grams[:-1] * MIX + points[more:]
    inside = owner[: len(grams)] == owner[size - 1 :]
    grams, owner = grams[inside], owner[: len(grams)][inside]
    vocabulary, numbers = np.unique(grams, return_inverse=True)
    pairs = np.unique(numbers * len(padded) + owner)
    return NameGrams(vocabulary[pairs // len(padded)], pairs % len(padded)) if len(padded) else NameGrams(grams, owner)


def squared_idf(counts: np.ndarray, n_names: int) -> np.ndarray:
    """The squared weight of 3-grams that so many (`counts`) of all names have: `(log((1 + N) / (1 + n)) + 1)²`."""
    return (np.log((1 + n_names) / (1 + counts)) + 1) ** 2
