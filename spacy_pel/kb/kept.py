"""What was made of an array that comes again, as the rows of one filter do until the KB changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

Made = TypeVar("Made")
MOST = 4  # as many filters as the labels of a batch often have


class KeptByArray(Generic[Made]):
    """Makes something of an array once, as long as it is among the latest that were asked for. Arrays are told by their
    identity. Threads may share it."""

    def __init__(self, make: Callable[[np.ndarray], Made]) -> None:
        self._make = make
        self._kept: dict[int, tuple[np.ndarray, Made]] = {}

    def __call__(self, array: np.ndarray) -> Made:
        """What is made of `array`."""
        kept = self._kept.get(id(array))  # which holds the array: no other has its id
        if kept is None:
            if len(self._kept) >= MOST:
                self._kept = {}
            kept = self._kept[id(array)] = array, self._make(array)
        return kept[1]
