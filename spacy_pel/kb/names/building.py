"""The index of many names, written to a file in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from .counting import CHUNK, Counting
from .grams import SIZE, Vocabulary
from .layout import Layout
from .runs import runs

KEY_SIZE = 4  # characters of what names are found by
POSTINGS_AT_ONCE = 1 << 22


def write_file(path: Path, forms: Iterable[list[str]]) -> tuple[Layout, Vocabulary]:
    """Write the index of the names of entities.

    Args:
        path: The new file.
        forms: The `distinct_forms` of the entities, from row 0.

    Returns:
        The layout of the file, and the 3-grams that it numbers.
    """
    with ExitStack() as stack:
        spilled = [stack.enter_context(TemporaryFile(dir=path.parent)) for _ in range(4)]
        file = stack.enter_context(path.open("wb"))
        grams, keys = Counting(SIZE, spilled[0]), Counting(KEY_SIZE, spilled[1])
        first = array("q", [0])
        names = _flat(forms, first)
        while chunk := list(islice(names, CHUNK)):
            grams.add(chunk)
            keys.add(chunk)
        vocabulary, known = grams.vocabulary(), keys.vocabulary()
        n_names = first[-1]
        layout = Layout.of(
            len(first) - 1, n_names, len(vocabulary.grams), grams.n_pairs, len(known.grams), keys.n_pairs
        )
        file.truncate(layout.size)
        writer = _Writer(file, layout)
        writer.write_names(np.array(first), grams, vocabulary)
        writer.write_keys(np.array(first), keys, known, spilled[2], spilled[3])
    return layout, vocabulary


class _Writer:
    def __init__(self, file: IO[bytes], layout: Layout) -> None:
        self._file, self._layout, self._size = file, layout, 1 << layout.bits
        self._written: dict[str, int] = {}

    def write_names(self, first: np.ndarray, grams: Counting, vocabulary: Vocabulary) -> None:
        """Write what names are compared by. first: (e + 1,) the first name of each entity."""
        self._put("entities", first)
        self._put("names", np.zeros(1))
        end = 0
        for names in grams.of_names(vocabulary, self._layout.places["grams"][0]):
            self._put("grams", names.numbers)
            self._put("norms", names.norms)
            self._put("names", end + np.cumsum(names.lengths))
            end += len(names.numbers)

    def write_keys(
        self, first: np.ndarray, keys: Counting, known: Vocabulary, by_name: IO[bytes], by_block: IO[bytes]
    ) -> None:
        """Write what names are found by. The last two are empty files to write to."""
        norms, lengths = [], []
        for names in keys.of_names(known, "<u4"):
            by_name.write(names.numbers.tobytes())
            norms.append(names.norms.astype(np.float32))
            lengths.append(names.lengths)
        norm, starts = np.concatenate(norms), np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        order = np.argsort(norm, kind="stable")
        self._put("keys", known.grams)
        self._put("counts", known.counts)
        self._put("order", order)
        self._put("owners", np.repeat(np.arange(len(first) - 1, dtype=np.uint32), np.diff(first))[order])
        lows = np.arange(0, len(order), self._size)
        highs = np.minimum(lows + self._size, len(order)) - 1
        self._put("bounds", np.concatenate([norm[order[lows]], norm[order[highs]]]))
        self._write_postings(self._spill_blocks(order, starts, len(known.grams), by_name, by_block), by_block)

    def _spill_blocks(
        self, order: np.ndarray, starts: np.ndarray, n_keys: int, by_name: IO[bytes], by_block: IO[bytes]
    ) -> np.ndarray:
        """Write the lists of block after block. Returns their lengths (b, n_keys) uint32."""
        by_name.flush()
        numbers = np.memmap(by_name, "<u4", "r") if starts[-1] else np.zeros(0, "<u4")
        cells = []
        for start in range(0, len(order), self._size):
            names = order[start : start + self._size]
            lengths = starts[names + 1] - starts[names]
            own = runs(numbers, starts[names], lengths)
            local = np.repeat(np.arange(len(names), dtype="<u2"), lengths)
            by_block.write(local[_sorting(own)].tobytes())
            cells.append(np.bincount(own, minlength=n_keys).astype(np.uint32))
        return np.stack(cells)

    def _write_postings(self, cells: np.ndarray, by_block: IO[bytes]) -> None:
        """From block after block to key after key. cells: (b, n_keys) the lengths of the lists."""
        sizes = cells.sum(axis=1, dtype=np.int64)
        next_places = 2 * (np.cumsum(sizes) - sizes)
        ends = np.cumsum(cells.sum(axis=0, dtype=np.int64))
        self._put("cells", np.zeros(1))
        start = done = 0
        while start < len(ends):
            stop = max(start + 1, int(np.searchsorted(ends, done + POSTINGS_AT_ONCE, side="right")))
            own = cells[:, start:stop].astype(np.int64)
            parts = []
            for block, size in enumerate(own.sum(axis=1)):
                by_block.seek(next_places[block])
                parts.append(by_block.read(2 * size))
                next_places[block] += 2 * size
            begin = (np.cumsum(own) - own.ravel()).reshape(own.shape)
            self._put("postings", runs(np.frombuffer(b"".join(parts), "<u2"), begin.T.ravel(), own.T.ravel()))
            self._put("cells", done + np.cumsum(own.T))
            start, done = stop, int(ends[stop - 1])

    def _put(self, key: str, values: np.ndarray) -> None:
        """Write more of an array."""
        kind, start, _ = self._layout.places[key]
        written = self._written.get(key, 0)
        data = np.ascontiguousarray(values, dtype=kind)
        self._file.seek(start + written)
        self._file.write(data.data)
        self._written[key] = written + data.nbytes


def _flat(forms: Iterable[list[str]], first: array) -> Iterator[str]:
    for own in forms:
        first.append(first[-1] + len(own))
        yield from own


def _sorting(numbers: np.ndarray) -> np.ndarray:
    """`np.argsort(numbers, kind="stable")`, by 16 bits at a time, which numpy sorts far faster."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    return order[np.argsort((numbers >> 16).astype(np.uint16)[order], kind="stable")]
