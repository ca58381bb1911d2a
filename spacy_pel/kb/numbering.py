"""What the numbers count: arrays of integers that must not be taken for one another."""

from __future__ import annotations

from collections import defaultdict
from typing import NewType

import numpy as np

EntityRows = NewType("EntityRows", np.ndarray)
"""Rows of entities in a KB, as `entities.sqlite` numbers them; -1 stands for no entity."""

VectorNumbers = NewType("VectorNumbers", np.ndarray)
"""Vectors of one index, numbered as its file holds them; -1 stands for no vector."""

EntityPlaces = NewType("EntityPlaces", np.ndarray)
"""Places in the list of entities that a training session keeps."""


def no_rows() -> EntityRows:
    """An empty array of rows."""
    return EntityRows(np.empty(0, dtype=np.int64))


def is_among(numbers: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Which (n,) of `numbers` are among those that are `ascending` (m,). It costs nothing where n is small."""
    return np.searchsorted(ascending, numbers) < np.searchsorted(ascending, numbers, side="right")


def both_ways(pairs: np.ndarray) -> dict[int, list[int]]:
    """For each number in `pairs` (n, 2) those that it is paired with."""
    paired: dict[int, list[int]] = defaultdict(list)
    for one, other in pairs.tolist():
        paired[one].append(other)
        paired[other].append(one)
    return dict(paired)
