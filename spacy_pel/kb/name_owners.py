"""The distinct names of all entities of a KB, and which entities have each: what an index of names is made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain

import numpy as np

from .index.owners import Owners
from .knowledge_base import KnowledgeBase
from .names.normal_form import alias_key, distinct_names
from .numbering import EntityRows, VectorNumbers


def names_and_owners(kb: KnowledgeBase) -> tuple[Iterator[str], Owners]:
    """Read the names of a KB.

    Returns:
        Every normalised name once, as it is written first, streamed from the records; and the entities that have each,
        in the order of `distinct_names` of an entity. Memory: some 60 bytes a name.
    """
    keys, n_names = array("q"), array("q")
    for names in _names(kb):
        keys.extend(map(alias_key, names))
        n_names.append(len(names))
    _, first, anew = np.unique(keys, return_index=True, return_inverse=True)
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[first] = True
    numbers = (np.cumsum(is_first) - 1)[first][anew]  # in the order in which the names come, not in that of their keys
    distinct = (name for name, is_new in zip(chain.from_iterable(_names(kb)), is_first, strict=True) if is_new)
    return distinct, Owners(EntityRows(np.repeat(kb.live_rows, n_names)), VectorNumbers(numbers))


def _names(kb: KnowledgeBase) -> Iterator[list[str]]:
    return (distinct_names(entity.name, entity.aliases) for entity in kb.entities())
