"""The index of many names, written to a file in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np

from .grams import TINY, Vocabulary, name_grams, squared_idf
from .layout import Layout
from .runs import runs

CHUNK = 1 << 16  # names at once: their numbers within a chunk take 16 bits
POSTINGS_AT_ONCE = 1 << 22


class Counted(NamedTuple):
    """The names, once all are read.

    Attributes:
        first: (n_entities + 1,) The first name of each entity.
        grams: (g,) int64 the 3-grams, ascending.
        counts: (g,) how many names have each.
        chunks: For each chunk of names, the numbers of its 3-grams and how many of its names have each.
    """

    first: np.ndarray
    grams: np.ndarray
    counts: np.ndarray
    chunks: list[tuple[np.ndarray, ...]]


def write_file(path: Path, forms: Iterable[list[str]]) -> tuple[Layout, Vocabulary]:
    """Write the index of the names of entities.

    Args:
        path: The new file.
        forms: The `distinct_forms` of the entities, from row 0.

    Returns:
        The layout of the file, and the 3-grams that it numbers.
    """
    with TemporaryFile(dir=path.parent) as spilled, TemporaryFile(dir=path.parent) as blocks, path.open("wb+") as file:
        counted = _count(forms, spilled)
        n_names, n_pairs = int(counted.first[-1]), int(counted.counts.sum())
        layout = Layout.of(len(counted.first) - 1, n_names, len(counted.grams), n_pairs)
        file.truncate(layout.size)
        _Writer(file, layout, counted).write(spilled, blocks)
    return layout, Vocabulary(counted.grams, counted.counts, n_names)


class _Writer:
    def __init__(self, file: IO[bytes], layout: Layout, counted: Counted) -> None:
        self._file, self._layout, self._counted, self._size = file, layout, counted, 1 << layout.bits
        self._written: dict[str, int] = {}

    def write(self, spilled: IO[bytes], blocks: IO[bytes]) -> None:
        """Write all arrays."""
        self._put("entities", self._counted.first)
        norms, starts = self._write_forward(spilled)
        order = np.argsort(norms, kind="stable")
        owner = np.repeat(np.arange(len(self._counted.first) - 1, dtype=np.uint32), np.diff(self._counted.first))
        self._put("order", order)
        self._put("owners", owner[order])
        cells = self._spill_blocks(order, starts, blocks)
        lows = np.arange(0, len(order), self._size)
        highs = np.minimum(lows + self._size, len(order)) - 1
        self._put("bounds", np.concatenate([norms[order[lows]], norms[order[highs]]]))
        self._put("cells", np.concatenate([[0], np.cumsum(cells.T.ravel(), dtype=np.int64)]))
        self._write_postings(cells, blocks)

    def _write_forward(self, spilled: IO[bytes]) -> tuple[np.ndarray, np.ndarray]:
        counted = self._counted
        n_names = int(counted.first[-1])
        squares = squared_idf(counted.counts, n_names)
        kind = self._layout.places["grams"][0]
        norms, lengths = [], []
        spilled.seek(0)
        for start, (numbers, counts) in zip(range(0, n_names, CHUNK), counted.chunks, strict=True):
            size = min(CHUNK, n_names - start)
            name = np.frombuffer(spilled.read(2 * int(counts.sum())), "<u2")
            norms.append(np.sqrt(np.bincount(name, np.repeat(squares[numbers], counts), minlength=size)))
            lengths.append(np.bincount(name, minlength=size))
            self._put("grams", np.repeat(numbers.astype(kind), counts)[np.argsort(name, kind="stable")])
        every = np.maximum(np.concatenate(norms), TINY).astype("<f4")
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        self._put("norms", every)
        self._put("names", starts)
        return every, starts

    def _spill_blocks(self, order: np.ndarray, starts: np.ndarray, blocks: IO[bytes]) -> np.ndarray:
        self._file.flush()
        forward = self._layout.views(np.memmap(self._file, np.uint8, "r"))["grams"]
        cells = []
        for start in range(0, len(order), self._size):
            names = order[start : start + self._size]
            lengths = starts[names + 1] - starts[names]
            grams = runs(forward, starts[names], lengths)
            local = np.repeat(np.arange(len(names), dtype="<u2"), lengths)
            blocks.write(local[_sorting(grams)].tobytes())
            cells.append(np.bincount(grams, minlength=len(self._counted.grams)).astype(np.uint32))
        return np.stack(cells)

    def _write_postings(self, cells: np.ndarray, blocks: IO[bytes]) -> None:
        """From block after block to 3-gram after 3-gram. cells: (n_blocks, g) the lengths of the lists."""
        before = np.zeros((len(cells), cells.shape[1] + 1), dtype=np.int64)
        np.cumsum(cells, axis=1, out=before[:, 1:])
        begin = np.concatenate([[0], np.cumsum(before[:, -1])])
        ends = np.cumsum(cells.sum(axis=0, dtype=np.int64))
        start = 0
        while start < len(ends):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + POSTINGS_AT_ONCE, side="right")))
            parts = []
            for block in range(len(cells)):
                blocks.seek(2 * int(begin[block] + before[block, start]))
                parts.append(blocks.read(2 * int(before[block, stop] - before[block, start])))
            own = cells[:, start:stop].astype(np.int64)
            places = (np.cumsum(own) - own.ravel()).reshape(own.shape)
            self._put("postings", runs(np.frombuffer(b"".join(parts), "<u2"), places.T.ravel(), own.T.ravel()))
            start = stop

    def _put(self, key: str, values: np.ndarray) -> None:
        kind, start, _ = self._layout.places[key]
        written = self._written.get(key, 0)
        self._file.seek(start + written)
        data = np.ascontiguousarray(values, dtype=kind)
        self._file.write(data.data)
        self._written[key] = written + data.nbytes


def _count(forms: Iterable[list[str]], spilled: IO[bytes]) -> Counted:
    first = array("q", [0])
    found: list[tuple[np.ndarray, np.ndarray]] = []
    names = _flat(forms, first)
    while chunk := list(islice(names, CHUNK)):
        grams, owner = name_grams(chunk)
        own, counts = np.unique(grams, return_counts=True)
        spilled.write(owner.astype("<u2").tobytes())
        found.append((own, counts))
    vocabulary = np.unique(np.concatenate([own for own, _ in found]))
    chunks: list[tuple[np.ndarray, ...]] = [(np.searchsorted(vocabulary, own), counts) for own, counts in found]
    totals = np.zeros(len(vocabulary), dtype=np.int64)
    for numbers, counts in chunks:
        totals[numbers] += counts
    return Counted(np.array(first), vocabulary, totals, chunks)


def _flat(forms: Iterable[list[str]], first: array) -> Iterator[str]:
    for own in forms:
        first.append(first[-1] + len(own))
        yield from own


def _sorting(grams: np.ndarray) -> np.ndarray:
    """`np.argsort(grams, kind="stable")`, by 16 bits at a time, which numpy sorts far faster."""
    order = np.argsort(grams.astype(np.uint16), kind="stable")
    if grams.dtype.itemsize > 2:
        order = order[np.argsort((grams >> 16).astype(np.uint16)[order], kind="stable")]
    return order
