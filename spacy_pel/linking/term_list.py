"""A list of terms in, the same list with their links out: tables with a header, or a term a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ..errors import PelError
from ..files.csv_rows import check_utf8, csv_rows
from ..files.json_lines import did_you_mean
from ..files.lines import decoded, lines

DELIMITERS = {"csv": ",", "tsv": "\t"}
TERM = "term"  # the column of plain terms


@dataclass
class TermList:
    """Rows with a term each.

    Attributes:
        columns: Their names.
        rows: As many cells each as there are columns.
        place: The column with the terms.
        lines: Where each row begins in the file.
    """

    columns: list[str]
    rows: list[list[str]]
    place: int
    lines: list[int] = field(compare=False)

    @property
    def terms(self) -> list[str]:
        """The term of each row, with single spaces in it; "" where there is none."""
        return [" ".join(row[self.place].split()) for row in self.rows]


def read_terms(file: BinaryIO, path: Path, format: str, column: str | None = None) -> TermList:
    """Read a list of terms.

    Args:
        file: Its bytes, in UTF-8.
        path: Where they come from, for errors.
        format: "csv" or "tsv", with a header; or "txt", a term a line.
        column: With the terms; None for the only one, or that of plain terms.

    Raises:
        PelError: Naming the line: it is not UTF-8, or a row is broken or of another width than the header; the table
            has no such column, or two; there is no term at all.
    """
    if format in DELIMITERS:
        found = _table(file, path, DELIMITERS[format], column)
    elif column is None:
        plain = list(_plain(file, path))
        found = TermList([TERM], plain, 0, list(range(1, len(plain) + 1)))
    else:
        raise PelError(f"--column {column}: {path} is read as plain terms; leave it out, or add --format csv (or tsv).")
    if not any(found.terms):
        raise PelError(f"{path}: has no term; write one a row.")
    return found


def other_delimiter(columns: list[str], format: str) -> str | None:
    """What seems to part the cells, where the header of a table of that format is one column; None: nothing else."""
    own = DELIMITERS.get(format)
    if own is None or len(columns) != 1:
        return None
    return next((mark for mark in ";\t" if mark != own and mark in columns[0]), None)


def table_bytes(columns: list[str], rows: list[list[str]], format: str) -> bytes:
    """A table as CSV or TSV, in UTF-8."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=DELIMITERS[format], lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def _plain(file: BinaryIO, path: Path) -> Iterator[list[str]]:
    for number, line in enumerate(lines(path, file), start=1):
        try:
            yield [decoded(line).removeprefix("\ufeff").rstrip("\r\n")]
        except PelError as error:
            raise PelError(f"{path}:{number}: {error}.") from error


def _table(file: BinaryIO, path: Path, delimiter: str, column: str | None) -> TermList:
    columns: list[str] = []
    rows, starts, start = [], [], 1
    with csv_rows(path, file, delimiter) as reader:
        try:
            for row in reader:
                where, begun, start = f"{path}:{reader.line_num}", start, reader.line_num + 1
                _check_text(row, where)
                if not columns:
                    columns = [name.strip() for name in row]
                    place = _place(columns, column, where)
                    continue
                row = row or [""] * len(columns)
                if len(row) != len(columns):
                    raise PelError(f"{where}: the row has {len(row)} cells, the header {len(columns)}; mend the row.")
                rows.append(row)
                starts.append(begun)
        except csv.Error as error:
            begins = f" in the row that begins in line {start}" if start < reader.line_num else ""
            raise PelError(f"{path}:{reader.line_num}: {error}{begins}; quote the cell or mend the row.") from error
    if not columns:
        raise PelError(f"{path}: is empty; write a header, and a term a row.")
    return TermList(columns, rows, place, starts)


def _check_text(row: list[str], where: str) -> None:
    try:
        check_utf8(row)
    except PelError as error:
        raise PelError(f"{where}: {error}.") from error


def _place(columns: list[str], column: str | None, where: str) -> int:
    there = ", ".join(columns)
    if column is None and len(columns) == 1:
        return 0
    if column is None:
        raise PelError(f"{where}: the columns are {there}; say which has the terms with --column.")
    if columns.count(column) > 1:
        raise PelError(f'{where}: {columns.count(column)} columns are called "{column}"; rename one.')
    if column not in columns:
        hint = did_you_mean(column, columns) or "."
        raise PelError(f'{where}: no column "{column}"{hint} The columns are {there}.')
    return columns.index(column)
