"""Several vectors of each of n things, in one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .stretches import stretches


@dataclass(frozen=True, eq=False)
class Several:
    """The vectors of n things, each of which has as many as it needs.

    Attributes:
        vectors: (v, d), those of the first before those of the second.
        counts: (n,) int64, how many each has.
    """

    vectors: Any
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, numbers: np.ndarray) -> Several:
        """Those of the things with these `numbers` (m,), in that order."""
        return Several(self.vectors[vector_places(numbers, self.counts)], self.counts[numbers])


Vectors = np.ndarray | Several
"""One vector of each of n things (n, d), or several."""


def vector_places(numbers: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """Where the vectors of the things with these `numbers` lie, if each has as many as `counts` says; None: one."""
    if counts is None:
        return numbers
    return stretches((np.cumsum(counts) - counts)[numbers], counts[numbers])


def flat(vectors: Any) -> Any:
    """All of `vectors` in one array (v, d)."""
    return vectors.vectors if isinstance(vectors, Several) else vectors


def counts_of(vectors: Vectors) -> np.ndarray:
    """How many (n,) each has."""
    return vectors.counts if isinstance(vectors, Several) else np.ones(len(vectors), dtype=np.int64)
