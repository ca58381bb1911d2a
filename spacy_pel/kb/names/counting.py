"""The parts of many names, counted as the names stream by, and read again name by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from .grams import TINY, Vocabulary, name_grams, squared_idf

CHUNK = 1 << 16  # names at once: their numbers within a chunk take 16 bits


class OfNames(NamedTuple):
    """A chunk of names (n,).

    Attributes:
        numbers: (p,) of the parts of each name, ascending, name after name.
        lengths: (n,) how many parts each name has.
        norms: (n,) float64.
    """

    numbers: np.ndarray
    lengths: np.ndarray
    norms: np.ndarray


class Counting:
    """The parts of `size` characters of names, in bounded memory.

    Args:
        size: In characters.
        spilled: An empty file, to write to and read again.
    """

    def __init__(self, size: int, spilled: IO[bytes]) -> None:
        self._size, self._spilled = size, spilled
        self._chunks: list[tuple[np.ndarray, np.ndarray, int]] = []

    def add(self, names: list[str]) -> None:
        """Count a chunk of normalised names."""
        grams, owner = name_grams(names, self._size)
        own, counts = np.unique(grams, return_counts=True)
        self._spilled.write(owner.astype("<u2").tobytes())
        self._chunks.append((own, counts.astype(np.uint32), len(names)))

    @property
    def n_pairs(self) -> int:
        """How many times a name has a part."""
        return sum(int(counts.sum()) for _, counts, _ in self._chunks)

    def vocabulary(self) -> Vocabulary:
        """The parts that were found."""
        grams = np.unique(np.concatenate([own for own, *_ in self._chunks]))
        totals = np.zeros(len(grams), dtype=np.int64)
        for own, counts, _ in self._chunks:
            totals[np.searchsorted(grams, own)] += counts
        return Vocabulary(grams, totals, sum(n_names for *_, n_names in self._chunks), self._size)

    def of_names(self, vocabulary: Vocabulary, kind: str) -> Iterator[OfNames]:
        """All names, in their order and in chunks. kind: The type of the numbers."""
        squares = squared_idf(vocabulary.counts, vocabulary.n_names)
        self._spilled.seek(0)
        for own, counts, n_names in self._chunks:
            numbers = np.searchsorted(vocabulary.grams, own)
            name = np.frombuffer(self._spilled.read(2 * int(counts.sum())), "<u2")
            norms = np.sqrt(np.bincount(name, np.repeat(squares[numbers], counts), minlength=n_names))
            by_name = np.repeat(numbers.astype(kind), counts)[np.argsort(name, kind="stable")]
            yield OfNames(by_name, np.bincount(name, minlength=n_names), np.maximum(norms, TINY))
