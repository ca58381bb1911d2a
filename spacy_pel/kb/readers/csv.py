"""Entity records from CSV or TSV: one row an entity, named columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...files.csv_rows import check_utf8, csv_rows
from ...files.json_lines import did_you_mean
from ...files.lines import opened, unpacked_suffix
from ..entity import Entity
from .faults import Faults, shortened
from .records import Records
from .rows import entities

if TYPE_CHECKING:
    from _csv import Reader

REQUIRED = ("id", "name")
LISTS = ("aliases", "types", "type_names", "xrefs")
TEXTS = ("definition", "source")
SEPARATOR = "|"  # between the values of a list


def read_csv(path: Path, *, columns: Sequence[str] = (), strict: bool = False) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) whose first row names the columns; tabs part them in a
    `.tsv`, else commas.

    `id` and `name` are required; `aliases`, `types`, `type_names` and `xrefs` hold values with "|" between them;
    `definition` and `source` are texts. Other columns are left out and counted, empty rows skipped. A row that has no
    id or name or another width, that is not UTF-8, or that has the id of another, is left out with a warning.

    Args:
        path: The file.
        columns: "field=column" for each of those that has another name in the file, say "id=CUI".
        strict: Such a row is an error.

    Raises:
        PelError: More than one row in a hundred is left out (with the first of them), or the file has no such columns,
            two of one name, or no entities.
    """
    skipped: Counter[str] = Counter()
    faults = Faults(Path(path), skipped, strict=strict)
    return Records(_stream(faults, _renamed(columns), skipped), skipped)


def _stream(faults: Faults, renamed: dict[str, str], skipped: Counter[str]) -> Iterator[Entity]:
    path = faults.path
    delimiter = "\t" if unpacked_suffix(path) == ".tsv" else ","
    with opened(path) as file, csv_rows(path, file, delimiter) as rows:
        try:
            names = next(rows, [])
        except csv.Error as error:
            raise PelError(f"{path}:1: {error}; quote the field or correct the row.") from error
        header = _header(path, names, renamed)
        known = REQUIRED + LISTS + TEXTS
        skipped.update(_unread(name, known) for name, field in zip(names, header, strict=True) if field not in known)
        yield from entities(faults, _rows(rows, faults), lambda row: _parse(header, row))


def _rows(rows: Reader, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """(line, row) of every row that is not empty. A quote that is not closed costs all lines up to the next one. Where
    there is a next one, those of a file with tabs are told by their columns."""
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            last = rows.line_num
            where = f" (up to line {last})" if last > line else ""
            faults.add(line, PelError(f"{error}{where}; quote the field or correct the row"), count=last - line + 1)
        else:
            last = rows.line_num
            if last > line and rows.dialect.delimiter == "\t" and _has_swallowed(row):
                opened_there = PelError(f"a field that begins with a quote goes on to line {last}; double the quote")
                faults.add(line, opened_there, count=last - line + 1)
            elif any(map(str.strip, row)):
                yield line, row


def _has_swallowed(row: list[str]) -> bool:
    """Whether a field of a row holds other rows: the lines in it have as many tabs as the row has, and the last as many
    as lead to the column of the quote that closes the field."""
    for place, field in enumerate(row):
        _, *inner, last = field.split("\n") if "\n" in field else ("", "", "")
        whole = all(line.count("\t") == len(row) - 1 for line in inner)
        if whole and last.count("\t") == place > 0 and not last.startswith("\t"):
            return True
    return False


def _renamed(columns: Sequence[str]) -> dict[str, str]:
    """Column of the file → field of an entity."""
    fields: dict[str, str] = {}
    for field, _, column in (pair.partition("=") for pair in columns):
        if not column.strip() or field.strip() not in REQUIRED + LISTS + TEXTS:
            raise PelError(
                f'--columns: "{field}={column}" is not FIELD=COLUMN; FIELD is {", ".join(REQUIRED + LISTS + TEXTS)}.'
            )
        if (other := fields.setdefault(column.strip().casefold(), field.strip())) != field.strip():
            raise PelError(f'--columns: "{column.strip()}" stands for {other} and for {field.strip()}; name it once.')
    return fields


def _header(path: Path, row: list[str], renamed: dict[str, str]) -> list[str]:
    """The fields in the order of the columns."""
    try:
        check_utf8(row)
    except PelError as error:
        raise PelError(f"{path}:1: {error}.") from error
    names = [column.strip().casefold() for column in row]
    missing = [column for column in renamed if column not in names]
    # A field that another column stands for is not read from the column of its own name.
    header = [renamed.get(name, "" if name in renamed.values() else name) for name in names]
    missing += [field for field in REQUIRED if field not in header]
    if missing:
        raise PelError(
            f'{path}:1: no column "{missing[0]}" among {shortened(str(row))}; the first row names the columns, id and '
            f"name at least (--columns says which stand for them).{_other_mark(row)}"
        )
    if twice := [field for field in REQUIRED + LISTS + TEXTS if header.count(field) > 1]:
        raise PelError(f'{path}:1: {header.count(twice[0])} columns are the "{twice[0]}"; rename or remove one.')
    return header


def _other_mark(row: list[str]) -> str:
    """What to say of a first row that is one column, and holds what may part columns."""
    mark = next((mark for mark in (";", "\t", "|") if len(row) == 1 and mark in row[0]), None)
    return "" if mark is None else f" Are columns parted by {mark!r}? Write commas, or tabs in a file named .tsv."


def _unread(name: str, fields: Sequence[str]) -> str:
    """What to say of a column that is not read."""
    if name.strip().casefold() in fields:
        return f'column "{name}", for which another stands'
    return f'column "{name}", which is no field{did_you_mean(name, fields)}'


def _parse(header: list[str], row: list[str]) -> Entity:
    check_utf8(row)
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
