"""What every reader of one entity a line owes its users: ids that come once, at least one entity, no blank names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ...errors import PelError
from ...files.json_lines import texts
from ..entity import Entity
from .faults import Faults, Raw

Place = TypeVar("Place", int, str)  # a line, or a file and its line


def entities(faults: Faults, rows: Iterable[tuple[int, Raw]], parse: Callable[[Raw], Entity]) -> Iterator[Entity]:
    """Stream `parse(row)` for every (line, row).

    A row for which `parse` raises a PelError, or whose id an earlier one has, is a fault.

    Raises:
        PelError: As for `Faults.parsed`, or there is no row at all.
    """
    lines: dict[str, int] = {}

    def unique(number: int, row: Raw) -> Entity:
        entity = parse(row)
        check_once(lines, entity.id, number, "entity")
        return entity

    yield from faults.parsed(rows, unique)
    if not lines:
        raise PelError(f"{faults.path}: holds no entities; write one a line.")


def check_once(places: dict[str, Place], id_: str, place: Place, what: str) -> None:
    """Note in `places` that a record stands at `place`. what: it is, an entity or a mention.

    Raises:
        PelError: One with the same id stands elsewhere.
    """
    before = places.setdefault(id_, place)
    if before != place:
        where = before if isinstance(before, str) else f"line {before}"
        raise PelError(f'the id "{id_}" is that of {where}; give every {what} its own id')


def filled_texts(record: dict[str, Any], key: str, skipped: Counter[str]) -> tuple[str, ...]:
    """The texts under `key` of a JSON object, but for blank ones, which are counted in `skipped`.

    Raises:
        PelError: As for `texts`.
    """
    found = texts(record, key)
    filled = tuple(one for one in found if one.strip())
    if len(filled) < len(found):
        skipped[f'values of "{key}" that are blank'] += len(found) - len(filled)
    return filled
