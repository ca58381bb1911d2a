"""What names count before anything was tuned."""

from __future__ import annotations

from typing import Any

from ..search.weights import DEFAULT, NameWeights


def default_weights(linker: Any) -> NameWeights | None:
    """The weights of names of a linker that was not tuned: `DEFAULT`, and beside dot products, or sums of them, as
    much as it is beside cosines. None without a KB, and for a KB of format 2, whose names have no index."""
    kb = linker.kb
    if kb is None or "names" not in kb.meta:
        return None
    if linker.model.attrs["settings"]["similarity"] == "cosine":
        return DEFAULT
    fingerprint = next(iter(linker.fingerprints.values()))
    if fingerprint not in kb.indexes:
        return DEFAULT
    return DEFAULT.scaled(linker.model.attrs["score"].terms * kb.entity_index(fingerprint).squared_length)
