"""Stretches of whole numbers, all at once."""

from __future__ import annotations

import numpy as np


def stretches(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers from each of `starts` (n,) on, as many as `lengths` (n,) says, one stretch behind the other.

    Raises:
        ValueError: A length is negative.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)
