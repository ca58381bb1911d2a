"""Parts of an array, all at once."""

from __future__ import annotations

import numpy as np

LIMIT = 1 << 26  # more is read by no look-up, only from a damaged file


def runs(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Those of `values` from each of `starts` (n,) on, as many as `lengths` (n,) says, one run behind the other.

    Raises:
        ValueError: A length is negative, or there are too many. An `IndexError` is raised for what lies outside.
    """
    return values[places(starts, lengths)]


def places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Where `runs` reads.

    Raises:
        ValueError: As for `runs`.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total > LIMIT:
        raise ValueError(f"a look-up would read {total:,} numbers")
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)
