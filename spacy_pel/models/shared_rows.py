"""Spots in token rows: many in few rows, each row encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .token_rows import PaddedBatch, TokenRows


@dataclass(frozen=True)
class SharedRows:
    """`m` mentions, or candidates of mentions, in rows of token ids. It is used as `TokenRows` are, by their numbers.

    Attributes:
        rows: The rows.
        spots: (m, 3) int64; of every one its row, its first token there and the one behind its last. One without a
            word piece has none between them.
    """

    rows: TokenRows
    spots: np.ndarray

    def __len__(self) -> int:
        return len(self.spots)

    @property
    def lengths(self) -> np.ndarray:
        """(m,) int64: the number of tokens of each mention."""
        return self.spots[:, 2] - self.spots[:, 1]

    def take(self, indices: Sequence[int] | np.ndarray) -> SharedRows:
        """Return the mentions at `indices`, in that order, and the rows that they need."""
        spots = self.spots[np.asarray(indices, dtype="int64")]
        needed, row_of = np.unique(spots[:, 0], return_inverse=True)
        return SharedRows(self.rows.take(needed), np.column_stack([row_of, spots[:, 1:]]))

    def with_steps(self, steps: Sequence[Any]) -> SharedRows:
        """Return the same with a perturbation for each of their batches."""
        return replace(self, rows=self.rows.with_steps(steps))

    def unique(self) -> tuple[SharedRows, np.ndarray]:
        """Return each distinct mention once, and for every mention (m,) the number of its distinct one."""
        rows, row_of = self.rows.unique()
        spots = np.column_stack([row_of[self.spots[:, 0]], self.spots[:, 1:]])
        spots, inverse = np.unique(spots, axis=0, return_inverse=True)
        return SharedRows(rows, spots), inverse.reshape(-1)

    def batches(self, max_tokens: int, pad: int) -> Iterator[tuple[np.ndarray, PaddedBatch]]:
        """`TokenRows.batches`, with the numbers (k,) of the mentions of a batch in place of those of its rows."""
        place_of = np.full(len(self.rows), -1)
        for rows, batch in self.rows.batches(max_tokens, pad):
            place_of[rows] = np.arange(len(rows))
            places = place_of[self.spots[:, 0]]
            own = (places >= 0).nonzero()[0]
            place_of[rows] = -1
            yield own, batch._replace(spots=np.column_stack([places[own], self.spots[own, 1:]]))
