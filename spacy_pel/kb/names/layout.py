"""The arrays of an index of names in one file, behind one another.

Names are numbered twice: in the order of the entities, and by their norm, least first. In the second order they are cut
into blocks of 2^bits names. An index has e entities, n names, b blocks and g distinct 3-grams, and p times a name has a
3-gram.

| array | length | what it holds |
| --- | --- | --- |
| entities | e + 1 | the first name of each entity |
| names | n + 1 | where the 3-grams of each name begin in `grams` |
| norms | n | of each name |
| grams | p | the numbers of the 3-grams of each name, ascending |
| order | n | for each name in the second order, its number in the first |
| owners | n | for each name in the second order, the row of its entity |
| bounds | 2 b | the least norm in each block, then the greatest |
| cells | g b + 1 | where the names of a block that have a 3-gram begin in `postings`, 3-gram after 3-gram |
| postings | p | their numbers within the block |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNED = 64  # bytes
TYPES = {"<u2", "<u4", "<i8", "<f4"}
KEYS = ("entities", "names", "norms", "grams", "order", "owners", "bounds", "cells", "postings")
BLOCKS, MOST_BITS = 64, 16  # so that numbers within a block take 16 bits


class Layout:
    """Where each array lies in the file.

    Attributes:
        bits: A block has 2^bits names.
        places: For each array its type, its first byte and its length.
    """

    def __init__(self, bits: int, places: Mapping[str, Any]) -> None:
        self.bits = bits
        self.places = {key: (str(kind), int(start), int(count)) for key, (kind, start, count) in places.items()}

    @classmethod
    def of(cls, n_entities: int, n_names: int, n_grams: int, n_pairs: int) -> Layout:
        """For an index of this size."""
        bits = min(MOST_BITS, (n_names // BLOCKS).bit_length())
        n_blocks = -(-n_names // (1 << bits))
        pointer = "<u4" if n_pairs < 1 << 32 else "<i8"
        sizes = {
            "entities": ("<u4", n_entities + 1),
            "names": (pointer, n_names + 1),
            "norms": ("<f4", n_names),
            "grams": ("<u2" if n_grams <= 1 << 16 else "<u4", n_pairs),
            "order": ("<u4", n_names),
            "owners": ("<u4", n_names),
            "bounds": ("<f4", 2 * n_blocks),
            "cells": (pointer, n_grams * n_blocks + 1),
            "postings": ("<u2", n_pairs),
        }
        places, start = {}, 0
        for key, (kind, count) in sizes.items():
            places[key] = (kind, start, count)
            start += math.ceil(np.dtype(kind).itemsize * count / ALIGNED) * ALIGNED
        return cls(bits, places)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return max(start + np.dtype(kind).itemsize * count for kind, start, count in self.places.values())

    def views(self, data: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays in the bytes of a file.

        Raises:
            ValueError: They do not lie there.
        """
        if set(self.places) != set(KEYS) or not {kind for kind, *_ in self.places.values()} <= TYPES:
            raise ValueError("meta does not say where its arrays of names are")
        return {key: np.frombuffer(data, kind, count, start) for key, (kind, start, count) in self.places.items()}
