"""Entity records from CSV or TSV: one row an entity, named columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from ...errors import PelError
from ..entity_store import Entity
from .rows import entities

REQUIRED = ("id", "name")
LISTS = ("aliases", "types", "xrefs")
TEXTS = ("definition", "source")
SEPARATOR = "|"  # between the values of a list
LONGEST_FIELD = 1 << 24  # characters; Python's own limit is 131,072, fewer than some entities have in aliases


def read_csv(path: Path) -> Iterator[Entity]:
    """Stream the entities of a UTF-8 file whose first row names the columns; tabs part them in a `.tsv`, else commas.

    `id` and `name` are required; `aliases`, `types` and `xrefs` hold values with "|" between them; `definition` and
    `source` are texts. Other columns and empty rows are skipped.

    RAISES: `PelError` naming file and line for a row without id or name or of another width, for an id that comes
        twice, for a file without those columns, and for one without entities.
    """
    path = Path(path)
    csv.field_size_limit(LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
        try:
            header = [column.strip().casefold() for column in next(rows, [])]
            missing = [column for column in REQUIRED if column not in header]
            if missing:
                raise PelError(
                    f'{path}:1: no column "{missing[0]}" among {header}; the first row names the columns, id and name '
                    "at least."
                )
            numbered = ((rows.line_num, row) for row in rows if any(row))
            yield from entities(path, numbered, lambda row: _parse(header, row))
        except UnicodeDecodeError as error:
            raise PelError(
                f"{path}: not UTF-8 ({error.reason}) after line {rows.line_num}; save it as UTF-8."
            ) from error
        except csv.Error as error:
            raise PelError(f"{path}:{rows.line_num}: {error}; quote the field or correct the row.") from error


def _parse(header: list[str], row: list[str]) -> Entity:
    if len(row) != len(header):
        raise PelError(
            f"the row has {len(row)} columns, the header {len(header)}; quote fields that hold the separator"
        )
    record = dict(zip(header, (field.strip() for field in row), strict=True))
    for column in REQUIRED:
        if not record[column]:
            raise PelError(f'"{column}" is empty; give every entity an "id" and a "name"')
    lists = {column: tuple(_values(record.get(column, ""))) for column in LISTS}
    return Entity(record["id"], record["name"], **lists, **{column: record.get(column, "") for column in TEXTS})


def _values(field: str) -> Iterator[str]:
    return (value.strip() for value in field.split(SEPARATOR) if value.strip())
