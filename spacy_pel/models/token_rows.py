"""Token rows: many short sequences of word-piece ids in two flat arrays, cut into padded batches for a tower."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..kb.stretches import stretches

ALIKE = 0.8


class PaddedBatch(NamedTuple):
    """One batch for a transformer.

    Attributes:
        ids: (n, t) int64, token ids.
        mask: (n, t) bool, True at real tokens.
        step: None, or (n, t, hidden) float32, added to the embeddings, at the `layer` of the tower (the FGSM
            perturbation).
        spots: None for one vector a row; or (k, 3) int64, for each of k vectors the row, the first token and the one
            behind the last.
    """

    ids: np.ndarray
    mask: np.ndarray
    step: Any = None
    spots: np.ndarray | None = None


class Readable(Protocol):
    """What a tower encodes: n things, a vector each, or several where its pooling keeps them."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: the number of tokens of each."""
        ...

    def take(self, indices: Sequence[int] | np.ndarray) -> Readable:
        """Return those at `indices`, in that order."""
        ...

    def unique(self) -> tuple[Readable, np.ndarray]:
        """Return each distinct one once, and for every one (n,) its number among them."""
        ...


class Rows(Readable, Protocol):
    """Those that stand in token rows."""

    def batches(self, max_tokens: int, pad: int) -> Iterator[tuple[np.ndarray, PaddedBatch]]:
        """Yield padded batches, with the numbers (k,) of what each gives vectors for."""
        ...


def distinct(keys: Iterable[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Return where each of n keys comes for the first time (d,), and for every key (n,) its number among those."""
    first: dict[Hashable, int] = {}
    inverse = np.array([first.setdefault(key, len(first)) for key in keys], dtype="int64")
    return np.unique(inverse, return_index=True)[1], inverse


@dataclass(frozen=True)
class TokenRows:
    """`n` rows of token ids without padding.

    Attributes:
        tokens: (total,) int32, the ids of all rows.
        offsets: (n + 1,) int64; row i is `tokens[offsets[i]:offsets[i + 1]]`.
        steps: None, or one perturbation for each of `batches`.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    steps: Sequence[Any] | None = None

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> TokenRows:
        """Make rows of lists of token ids."""
        rows = list(rows)
        offsets = np.zeros(len(rows) + 1, dtype="int64")
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        tokens = np.fromiter(chain.from_iterable(rows), dtype="int32", count=int(offsets[-1]))
        return cls(tokens, offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[TokenRows]) -> TokenRows:
        """Put the rows of several one after the other."""
        parts = list(parts)
        lengths = np.concatenate([np.diff(part.offsets) for part in parts] or [np.zeros(0, dtype="int64")])
        tokens = np.concatenate([part.tokens for part in parts] or [np.zeros(0, dtype="int32")])
        return cls(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype("int64"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: the number of tokens of each row."""
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    def take(self, indices: Sequence[int] | np.ndarray) -> TokenRows:
        """Return the rows at `indices`, in that order."""
        indices = np.asarray(indices, dtype="int64")
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return TokenRows(self.tokens[stretches(self.offsets[indices], lengths)], offsets)

    def with_steps(self, steps: Sequence[Any]) -> TokenRows:
        """Return the same rows with a perturbation for each of their batches."""
        return TokenRows(self.tokens, self.offsets, steps)

    def unique(self) -> tuple[TokenRows, np.ndarray]:
        """Return each distinct row once, and for every row (n,) the number of its distinct row."""
        indices, inverse = distinct(self[i].tobytes() for i in range(len(self)))
        return self.take(indices), inverse

    def batches(self, max_tokens: int, pad: int) -> Iterator[tuple[np.ndarray, PaddedBatch]]:
        """Yield padded batches of rows of like length, longest first. The same rows always give the same batches.

        A batch ends where it is full, and, once it is a quarter full, before a row of under `ALIKE` of its width: many
        short rows behind a few long ones would be mostly padding.

        Args:
            max_tokens: The most positions of a batch; a longer row is a batch of its own.
            pad: The token id of the padding.

        Yields:
            The row numbers (m,) of a batch, and the batch.
        """
        lengths = self.lengths
        order = np.argsort(-lengths, kind="stable")
        start = number = 0
        while start < len(order):
            width = max(1, int(lengths[order[start]]))
            full = order[start : start + max(1, max_tokens // width)]
            alike = int(np.searchsorted(-lengths[full], -ALIKE * width, side="right"))
            indices = full[: max(alike, 1, max_tokens // (4 * width))]
            step = self.steps[number] if self.steps is not None else None
            yield indices, self._pad(indices, lengths[indices], pad, step)
            start += len(indices)
            number += 1

    def _pad(self, indices: np.ndarray, lengths: np.ndarray, pad: int, step: Any) -> PaddedBatch:
        columns = np.arange(max(1, lengths.max()))
        mask = columns[None, :] < lengths[:, None]
        ids = np.full(mask.shape, pad, dtype="int64")
        ids[mask] = self.tokens[(self.offsets[indices][:, None] + columns)[mask]]
        return PaddedBatch(ids, mask, step)
