"""Names as sets of character 3-grams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

BITS = 21  # of a code point


class NameGrams(NamedTuple):
    """The distinct 3-grams of some names.

    Attributes:
        grams: (p,) int64, ascending.
        names: (p,) int64, the number of the name that has it; ascending for each 3-gram.
    """

    grams: np.ndarray
    names: np.ndarray


def name_grams(forms: Iterable[str]) -> NameGrams:
    """The 3-grams of normalised names, each with a space before and behind it."""
    padded = [f" {form} " for form in forms]
    points = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    lengths = np.array([len(text) for text in padded], dtype=np.int64)
    owner = np.repeat(np.arange(len(padded)), lengths)
    inside = owner[:-2] == owner[2:]
    grams = (points[:-2] << 2 * BITS | points[1:-1] << BITS | points[2:])[inside]
    vocabulary, numbers = np.unique(grams, return_inverse=True)
    pairs = np.unique(numbers * len(padded) + owner[:-2][inside])
    return NameGrams(vocabulary[pairs // len(padded)], pairs % len(padded)) if len(padded) else NameGrams(grams, owner)


def squared_idf(counts: np.ndarray, n_names: int) -> np.ndarray:
    """The squared weight of 3-grams that so many (`counts`) of all names have: `(log((1 + N) / (1 + n)) + 1)²`."""
    return (np.log((1 + n_names) / (1 + counts)) + 1) ** 2
