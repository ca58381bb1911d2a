"""Which entities of a KB may be candidates."""

from __future__ import annotations

from typing import NamedTuple


class Allowed(NamedTuple):
    """What an entity must have to be a candidate; None: whatever it has.

    Attributes:
        types: One of these types.
        vocabularies: A code of one of these vocabularies among its `xrefs`.
    """

    types: frozenset[str] | None = None
    vocabularies: frozenset[str] | None = None
