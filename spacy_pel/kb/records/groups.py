"""Entities by their types, and by the vocabularies that they have codes of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError
from ..allowed import Allowed
from ..entity import is_text
from ..numbering import EntityRows, no_rows
from .schema import CODES

Fetch = Callable[[str, Sequence[Any]], list[tuple]]
NO_CODES = "ask without codes, or build the KB of records with xrefs"
SHOWN = 20  # of the groups there are, in an error


class _Kind(NamedTuple):
    """A kind of groups: the table that leads from their names, in a column, to rows, how errors speak of them, and what
    they say to do where there are none."""

    table: str
    column: str
    plural: str
    lacks: str
    remedy: str


class Groups:
    """The groups in the records of a KB. The rows that it has looked up it keeps.

    Args:
        path: Of the KB.
        fetch: From a query and its parameters to all that it finds.
        indexed: Whether there is a table of the vocabularies; without one all records are read.
        seen: The groups, as (column, name), that have had entities since the KB was opened: they may lose the last one.
    """

    def __init__(self, path: Path, fetch: Fetch, seen: set[tuple[str, str]], *, indexed: bool) -> None:
        self._path, self._fetch, self._seen = path, fetch, seen
        self._types = _Kind("types", "type", "types", "has the type", "ask without types")
        vocabularies = "vocabularies" if indexed else f"({CODES})"
        self._vocabularies = _Kind(vocabularies, "vocabulary", "vocabularies", "has a code of the vocabulary", NO_CODES)
        self._kept: dict[Allowed, EntityRows] = {}

    def rows(self, allowed: Allowed) -> EntityRows:
        """The rows (n,) of the entities that have all that is asked for, ascending.

        Raises:
            PelError: No entity has one of the types, or a code of one of the vocabularies, nor has had since the KB was
                opened.
        """
        if allowed not in self._kept:
            asked = ((self._types, allowed.types), (self._vocabularies, allowed.vocabularies))
            sides = [self._rows_of(kind, names) for kind, names in asked if names is not None]
            self._kept[allowed] = EntityRows(reduce(partial(np.intersect1d, assume_unique=True), sides))
        return self._kept[allowed]

    def check_vocabularies(self, vocabularies: Iterable[str]) -> None:
        """Check that there are codes of each.

        Raises:
            PelError: There are none of one.
        """
        kind = self._vocabularies
        for name in vocabularies:
            if not self._found(kind, "1", name, "LIMIT 1"):
                raise self._unknown(kind, name)

    def type_counts(self) -> dict[str, int]:
        """How many entities each type has, the commonest first."""
        return self._counts(self._types)

    def code_counts(self) -> dict[str, int]:
        """How many entities have codes of each vocabulary, the commonest first."""
        return self._counts(self._vocabularies)

    def _rows_of(self, kind: _Kind, names: Iterable[str]) -> EntityRows:
        found = [no_rows()]
        for name in sorted(names):
            rows = self._found(kind, "row", name)
            if rows:
                self._seen.add((kind.column, name))
            elif (kind.column, name) not in self._seen:
                raise self._unknown(kind, name)
            found.append(EntityRows(np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))))
        return EntityRows(np.unique(np.concatenate(found)))

    def _found(self, kind: _Kind, what: str, name: str, limit: str = "") -> list[tuple]:
        query = f"SELECT {what} FROM {kind.table} WHERE {kind.column} = ? {limit}"
        return self._fetch(query, (name,)) if is_text(name) else []

    def _unknown(self, kind: _Kind, name: str) -> PelError:
        known = list(self._counts(kind))
        if not known:
            return PelError(f'{self._path}: no entity {kind.lacks} "{name}", or any other; {kind.remedy}.')
        there = ", ".join(known[:SHOWN])
        return PelError(f'{self._path}: no entity {kind.lacks} "{name}"; the commonest {kind.plural} are {there}.')

    def _counts(self, kind: _Kind) -> dict[str, int]:
        column = kind.column
        query = f"SELECT {column}, COUNT(*) FROM {kind.table} GROUP BY {column} ORDER BY COUNT(*) DESC, {column}"
        return dict(self._fetch(query, ()))
