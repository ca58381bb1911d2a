"""The distinct names of all entities of a KB, and which entities have each: what an index of names is made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain, compress

import numpy as np

from ..errors import PelError
from .index.owners import Owners
from .knowledge_base import KnowledgeBase
from .names.normal_form import alias_key, distinct_names
from .numbering import EntityRows, VectorNumbers


def names_and_owners(kb: KnowledgeBase) -> tuple[Iterator[str], Owners]:
    """Read the names of a KB.

    Returns:
        Every normalised name once, as it is written first, streamed from the records; and the entities that have each,
        in the order of `distinct_names` of an entity. Memory: some 60 bytes a name.

    Raises:
        PelError: Here or from the stream, where the KB changes meanwhile.
    """
    moment, rows = kb.moment, kb.live_rows
    keys, n_names = array("q"), array("q")
    for names in _names(kb):
        keys.extend(map(alias_key, names))
        n_names.append(len(names))
    _, first, anew = np.unique(keys, return_index=True, return_inverse=True)
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[first] = True
    numbers = (np.cumsum(is_first) - 1)[first][anew]  # in the order in which the names come, not in that of their keys
    _check_unchanged(kb, moment)
    return _marked(kb, is_first, moment), Owners(EntityRows(np.repeat(rows, n_names)), VectorNumbers(numbers))


def _marked(kb: KnowledgeBase, marks: np.ndarray, moment: object) -> Iterator[str]:
    """Those of the names of `kb`, as it was at that `moment`, that `marks` (n,) has True for."""
    yield from compress(chain.from_iterable(_names(kb)), marks)
    _check_unchanged(kb, moment)


def _check_unchanged(kb: KnowledgeBase, moment: object) -> None:
    if kb.moment is not moment:
        raise PelError(f"{kb.path}: has changed while its names were read; repeat.")


def _names(kb: KnowledgeBase) -> Iterator[list[str]]:
    return (distinct_names(entity.name, entity.aliases) for entity in kb.entities())
