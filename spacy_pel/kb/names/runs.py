"""Parts of an array, all at once."""

from __future__ import annotations

import numpy as np

from ..stretches import stretches

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
    total = int(np.sum(lengths))
    if total > LIMIT:
        raise ValueError(f"a look-up would read {total:,} numbers")
    return stretches(starts, lengths)
