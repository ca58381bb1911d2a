"""What the numbers count: arrays of integers that must not be taken for one another."""

from __future__ import annotations

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
