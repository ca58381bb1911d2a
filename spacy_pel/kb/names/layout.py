"""The arrays of an index of names in one file, behind one another.

Names are compared by their 3-grams and found by their 4-grams, here called keys: these are rarer, so that far shorter
lists lead to the same names. Names are numbered twice: in the order of the entities, and by their norm as a set of
keys, least first. In the second order they are cut into blocks of 2^bits names. An index has e entities, n names, b
blocks and k distinct keys; p times a name has a 3-gram, and q times a key.

| array | length | what it holds |
| --- | --- | --- |
| entities | e + 1 | the first name of each entity |
| names | n + 1 | where the 3-grams of each name begin in `grams` |
| norms | n | of each name |
| grams | p | the numbers of the 3-grams of each name, ascending |
| keys | k | hashed, ascending |
| counts | k | how many names have each |
| order | n | for each name in the second order, its number in the first |
| owners | n | for each name in the second order, the row of its entity |
| bounds | 2 b | the least norm in each block, then the greatest |
| cells | k b + 1 | where the names of a block that have a key begin in `postings`, key after key |
| postings | q | their numbers within the block |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNED = 64  # bytes
TYPES = {"<u2", "<u4", "<i8", "<f4"}
ARRAYS = ("entities", "names", "norms", "grams", "keys", "counts", "order", "owners", "bounds", "cells", "postings")
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
    def of(cls, n_entities: int, n_names: int, n_grams: int, n_pairs: int, n_keys: int, n_key_pairs: int) -> Layout:
        """For an index of this size."""
        bits = min(MOST_BITS, (n_names // BLOCKS).bit_length())
        n_blocks = -(-n_names // (1 << bits))
        pointer = "<u4" if max(n_pairs, n_key_pairs) < 1 << 32 else "<i8"
        sizes = {
            "entities": ("<u4", n_entities + 1),
            "names": (pointer, n_names + 1),
            "norms": ("<f4", n_names),
            "grams": ("<u2" if n_grams <= 1 << 16 else "<u4", n_pairs),
            "keys": ("<i8", n_keys),
            "counts": ("<u4", n_keys),
            "order": ("<u4", n_names),
            "owners": ("<u4", n_names),
            "bounds": ("<f4", 2 * n_blocks),
            "cells": (pointer, n_keys * n_blocks + 1),
            "postings": ("<u2", n_key_pairs),
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
        if set(self.places) != set(ARRAYS) or not {kind for kind, *_ in self.places.values()} <= TYPES:
            raise ValueError("meta does not say where its arrays of names are")
        return {key: np.frombuffer(data, kind, count, start) for key, (kind, start, count) in self.places.items()}
