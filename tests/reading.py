"""Records that are read to their end, and what is said of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from spacy_pel.kb.entity import Entity


def read_all(records: Iterable[Entity]) -> tuple[list[Entity], list[str]]:
    """The entities, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = list(records)
    return found, [str(warning.message) for warning in caught]
