"""The names of a KB in a memory-mapped file, of which a search reads only where the most alike can be.

A name that shares the weight c with a text has the cosine c / (m n), for their norms m and n. As c is at most m², at
most n², and at most the weight R of all 3-grams of the text from the first one on that they share, the cosine is at
most min(m / n, n / m, R / (m n)). With the 3-grams from the rarest to the commonest, and the names cut into blocks by
their norm, that is a bound for each cell: the names of a block that have a 3-gram. The cells of the highest bounds are
read, as many as `BUDGET` allows: so all names are seen whose cosine is over the highest bound that was left out.

It is done with 4-grams, which are rarer. Of the names that were read, those that share the most are then compared with
the text, 3-gram by 3-gram. A name that shares no 4-gram with the text is not found.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..kept import KeptByArray
from ..numbering import EntityRows, is_among, no_rows
from .building import KEY_SIZE
from .grams import TINY, Text, Vocabulary
from .runs import places, runs

BUDGET = 16_384  # postings that a search reads
COMPARED = 1024  # names, or `PER_RESULT` times as many as are asked for, that are then compared
PER_RESULT = 16
LEVELS = 128  # of bounds, between 0 and 1
REMEMBERED = 16_384  # texts whose entities are kept: names come again from document to document


class FileNames:
    """The names of a KB in a file.

    Attributes:
        n_rows: How many entities are in the index.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], bits: int, n_grams: int) -> None:
        """Names in a file.

        Args:
            arrays: Of the file, see `layout`.
            bits: A block has 2^bits names.
            n_grams: How many 3-grams the index numbers.
        """
        self.n_rows = len(arrays["entities"]) - 1
        self._keys = Vocabulary(arrays["keys"], arrays["counts"], len(arrays["order"]), KEY_SIZE)
        self._arrays, self._bits, self._n_grams = arrays, bits, n_grams
        self._least, self._most = arrays["bounds"].reshape(2, -1).astype(np.float64)
        self._idle: list[np.ndarray] = []  # of zeros (n_names,), to sum up in
        self._allowed = KeptByArray(self._is_allowed)
        self._best: dict[tuple[str, int], EntityRows] = {}
        self._removed = no_rows()  # when they were found

    def beside(self, text: Text) -> FileMatch:
        """`text`, to be compared with names."""
        return FileMatch(self, text)

    def best(self, text: Text, k: int, within: EntityRows | None, removed: EntityRows) -> EntityRows:
        """The rows of about the `k` entities that are most like a text, none of which is `removed`, best first. A
        search among all names is remembered, one `within` some is not."""
        if within is not None:
            return self._search(text, k, within, removed)
        if removed is not self._removed or len(self._best) >= REMEMBERED:
            self._best, self._removed = {}, removed
        known, key = self._best, (text.text, k)
        if key not in known:
            known[key] = self._search(text, k, None, removed)
        return known[key]

    def _search(self, text: Text, k: int, within: EntityRows | None, removed: EntityRows) -> EntityRows:
        n_names = max(COMPARED, PER_RESULT * k)
        if within is not None and len(within) <= n_names:
            rows = EntityRows(np.setdiff1d(within[within < self.n_rows], removed))
            alike = self.scores(text, rows)
        else:
            rows, alike = self._found(text, n_names, within, removed)
        order = np.argsort(-alike)[: int((alike > 0).sum())]
        return EntityRows(np.array(list(dict.fromkeys(rows[order].tolist()))[:k], dtype=np.int64))

    def alike(self, text: Text, names: np.ndarray) -> np.ndarray:
        """How alike `names` (n,), in the order of the entities, are to a text: (n,) float32."""
        weights = np.zeros(self._n_grams)
        weights[text.numbers] = text.weights
        starts = self._arrays["names"][names].astype(np.int64)
        lengths = self._arrays["names"][names + 1] - starts
        own = weights[runs(self._arrays["grams"], starts, lengths)]
        common = np.bincount(np.repeat(np.arange(len(names)), lengths), own, minlength=len(names))
        return common.astype(np.float32) / self._arrays["norms"][names] / text.norm

    def scores(self, text: Text, rows: EntityRows) -> np.ndarray:
        """How alike the best names of the entities at `rows` (n,) are to a text: (n,) float32."""
        first = self._arrays["entities"][rows].astype(np.int64)
        counts = self._arrays["entities"][rows + 1] - first
        alike = self.alike(text, places(first, counts))
        return np.maximum.reduceat(alike, np.cumsum(counts) - counts) if len(rows) else alike

    def _found(
        self, text: Text, n: int, within: EntityRows | None, removed: EntityRows
    ) -> tuple[EntityRows, np.ndarray]:
        """About the `n` names most like a text, as the rows (m,) of their entities and how alike they are (m,)."""
        names, guess = self._read(self._keys.text(text.text))
        if len(removed):
            there = ~is_among(self._arrays["owners"][names].astype(np.int64), removed)
            names, guess = names[there], guess[there]
        if within is not None:
            allowed = self._allowed(within)[self._arrays["owners"][names]]
            names, guess = names[allowed], guess[allowed]
        if len(names) > n:
            names = names[np.argpartition(-guess, n)[:n]]
        rows = EntityRows(self._arrays["owners"][names].astype(np.int64))
        return rows, self.alike(text, self._arrays["order"][names].astype(np.int64))

    def _read(self, text: Text) -> tuple[np.ndarray, np.ndarray]:
        """Names (n,), in the order of their norms, and how alike they may be (n,)."""
        order = np.argsort(-text.weights, kind="stable")
        numbers, weights = text.numbers[order], text.weights[order]
        n_blocks = len(self._least)
        ends = self._arrays["cells"][(numbers * n_blocks)[:, None] + np.arange(n_blocks + 1)].astype(np.int64)
        lengths = np.diff(ends)
        taken = self._taken(weights, text.norm, lengths)
        block, gram = np.nonzero((taken & (lengths > 0)).T)  # block after block, so that sums lie close together
        length = lengths[gram, block]
        names = runs(self._arrays["postings"], ends[gram, block], length) + np.repeat(block << self._bits, length)
        names, common = self._summed(names, np.repeat(weights[gram].astype(np.float32), length))
        scale = 1 / (np.sqrt(np.maximum(weights @ taken, TINY)) * np.maximum(self._least, TINY))
        return names, common * scale.astype(np.float32)[names >> self._bits]

    def _taken(self, weights: np.ndarray, norm: float, lengths: np.ndarray) -> np.ndarray:
        """Which cells (g, b) of a text to read. lengths: (g, b), of their lists."""
        left = np.cumsum(weights[::-1])[::-1, None]
        least = np.maximum(self._least, TINY)
        bound = np.minimum(left / (norm * least), np.minimum(self._most / norm, norm / least))
        level = np.minimum(bound * LEVELS, LEVELS - 1).astype(np.int64)
        sizes = np.bincount(level.ravel(), lengths.ravel(), LEVELS)[::-1].cumsum()[::-1]
        return level >= min(int((sizes > BUDGET).sum()), int((sizes > 0).sum()) - 1)

    def _summed(self, names: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each of `names` (p,) once, with the sum of its `weights` (p,)."""
        sums = self._idle.pop() if self._idle else np.zeros(len(self._arrays["order"]), dtype=np.float32)
        np.add.at(sums, names, weights)
        common = sums[names]
        place = np.arange(len(names), dtype=np.float32)
        sums[names] = place
        once = sums[names] == place  # the last of equal names
        sums[names] = 0
        self._idle.append(sums)
        return names[once], common[once]

    def _is_allowed(self, within: np.ndarray) -> np.ndarray:
        """Whether each row is one of `within`."""
        allowed = np.zeros(self.n_rows, dtype=bool)
        allowed[within[within < self.n_rows]] = True
        return allowed


class FileMatch:
    """A text beside the names in a file."""

    def __init__(self, names: FileNames, text: Text) -> None:
        self._names, self._text = names, text

    def best(self, k: int, within: EntityRows | None, removed: EntityRows) -> EntityRows:
        """The rows of about the `k` entities that are most alike, none of which is `removed`."""
        return self._names.best(self._text, k, within, removed)

    def scores(self, rows: EntityRows) -> np.ndarray:
        """How alike the entities at `rows` (n,) are."""
        return self._names.scores(self._text, rows)
