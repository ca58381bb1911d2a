"""What every reader of one entity a line owes its users: errors that name file and line, ids that come once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ...errors import PelError
from ..entity import Entity

Row = TypeVar("Row")


def entities(path: Path, rows: Iterable[tuple[int, Row]], parse: Callable[[Row], Entity]) -> Iterator[Entity]:
    """Stream `parse(row)` for every (line, row).

    Raises:
        PelError: `parse` raises one, an id comes twice (both with file and line), or there is no row at all.
    """
    lines: dict[str, int] = {}
    for number, row in rows:
        try:
            entity = parse(row)
            if entity.id in lines:
                raise PelError(f'the id "{entity.id}" is that of line {lines[entity.id]}; give every entity its own id')
        except PelError as error:
            raise PelError(f"{path}:{number}: {error}.") from error
        lines[entity.id] = number
        yield entity
    if not lines:
        raise PelError(f"{path}: holds no entities; write one a line.")
