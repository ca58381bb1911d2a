"""Entity records from CSV or TSV: one row an entity, named columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...files.lines import opened, unpacked_suffix
from ..entity import Entity
from .records import Records
from .rows import entities

REQUIRED = ("id", "name")
LISTS = ("aliases", "types", "type_names", "xrefs")
TEXTS = ("definition", "source")
SEPARATOR = "|"  # between the values of a list
LONGEST_FIELD = 1 << 24  # characters; Python's own limit is 131,072, fewer than some entities have in aliases


def read_csv(path: Path, *, columns: Sequence[str] = ()) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) whose first row names the columns; tabs part them in a
    `.tsv`, else commas.

    `id` and `name` are required; `aliases`, `types`, `type_names` and `xrefs` hold values with "|" between them;
    `definition` and `source` are texts. Other columns are left out and counted, empty rows skipped.

    Args:
        path: The file.
        columns: "field=column" for each of those that has another name in the file, say "id=CUI".

    Raises:
        PelError: A row has no id or name or another width, an id comes twice (both with file and line), or the file has
            no such columns or no entities.
    """
    skipped: Counter[str] = Counter()
    return Records(_stream(Path(path), _renamed(columns), skipped), skipped)


def _stream(path: Path, renamed: dict[str, str], skipped: Counter[str]) -> Iterator[Entity]:
    csv.field_size_limit(LONGEST_FIELD)
    with opened(path) as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter="\t" if unpacked_suffix(path) == ".tsv" else ",", strict=True)
        try:
            names = next(rows, [])
            header = _header(path, names, renamed)
            known = REQUIRED + LISTS + TEXTS
            skipped.update(
                f'column "{n}", which is no field' for n, f in zip(names, header, strict=True) if f not in known
            )
            numbered = ((rows.line_num, row) for row in rows if any(row))
            yield from entities(path, numbered, lambda row: _parse(header, row))
        except UnicodeDecodeError as error:
            raise PelError(
                f"{path}: not UTF-8 ({error.reason}) after line {rows.line_num}; save it as UTF-8."
            ) from error
        except csv.Error as error:
            raise PelError(f"{path}:{rows.line_num}: {error}; quote the field or correct the row.") from error


def _renamed(columns: Sequence[str]) -> dict[str, str]:
    """Column of the file → field of an entity."""
    pairs = [pair.partition("=") for pair in columns]
    for field, _, column in pairs:
        if not column.strip() or field.strip() not in REQUIRED + LISTS + TEXTS:
            raise PelError(
                f'--columns: "{field}={column}" is not FIELD=COLUMN; FIELD is {", ".join(REQUIRED + LISTS + TEXTS)}.'
            )
    return {column.strip().casefold(): field.strip() for field, _, column in pairs}


def _header(path: Path, row: list[str], renamed: dict[str, str]) -> list[str]:
    """The fields in the order of the columns."""
    names = [column.strip().casefold() for column in row]
    missing = [column for column in renamed if column not in names]
    # A field that another column stands for is not read from the column of its own name.
    header = [renamed.get(name, "" if name in renamed.values() else name) for name in names]
    missing += [field for field in REQUIRED if field not in header]
    if missing:
        raise PelError(
            f'{path}:1: no column "{missing[0]}" among {row}; the first row names the columns, id and name at least '
            "(--columns says which stand for them)."
        )
    return header


def _parse(header: list[str], row: list[str]) -> Entity:
    if len(row) != len(header):
        raise PelError(
            f"the row has {len(row)} columns, the header {len(header)}; quote fields that hold the separator"
        )
    record = dict(zip(header, (field.strip() for field in row), strict=True))
    for column in REQUIRED:
        if not record[column]:
            raise PelError(f'"{column}" is empty; give every entity an "id" and a "name"')
    fields: dict[str, Any] = {column: record.get(column, "") for column in TEXTS}
    fields |= {column: tuple(_values(record.get(column, ""))) for column in LISTS}
    return Entity(record["id"], record["name"], **fields)


def _values(field: str) -> Iterator[str]:
    return (value.strip() for value in field.split(SEPARATOR) if value.strip())
