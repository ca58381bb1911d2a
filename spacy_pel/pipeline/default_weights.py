"""What names count before anything was tuned."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..search.weights import DEFAULT, NameWeights

SAMPLE = 1000  # vectors that tell how long those of an index are


def default_weights(linker: Any) -> NameWeights | None:
    """The weights of names of a linker that was not tuned: `DEFAULT`, and beside dot products as much as it is beside
    cosines. None without a KB, and for a KB of format 2, whose names have no index."""
    kb = linker.kb
    if kb is None or "names" not in kb.meta:
        return None
    if linker.objective.loss.similarity == "cosine":
        return DEFAULT
    fingerprint = next(iter(linker.fingerprints.values()))
    return DEFAULT.scaled(_squared_length(kb.entity_index(fingerprint))) if fingerprint in kb.indexes else DEFAULT


@lru_cache(maxsize=8)
def _squared_length(index: Any) -> float:
    """The mean of the first vectors of `index`."""
    vectors = next(block for block in index.blocks() if len(block))[:SAMPLE]
    return float(np.square(vectors).sum(axis=1).mean())
