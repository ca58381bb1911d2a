"""Rows of CSV and TSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..errors import PelError
from .lines import lines

if TYPE_CHECKING:
    from _csv import Reader

LONGEST_CELL = 1 << 24  # characters; Python's own limit is 131,072, fewer than some entities have in aliases


@contextmanager
def csv_rows(path: Path, file: BinaryIO, delimiter: str) -> Iterator[Reader]:
    """The rows of `file`, which was opened from `path` and stays open. `check_utf8` tells those that are not UTF-8.

    Raises:
        PelError: As for `lines`.
        csv.Error: A quote is not closed, or stands where none may.
    """
    csv.field_size_limit(LONGEST_CELL)
    text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield csv.reader(lines(path, text), delimiter=delimiter, strict=True)
    finally:
        text.detach()


def check_utf8(row: list[str]) -> None:
    """Check that the bytes of a row of `csv_rows` were UTF-8.

    Raises:
        PelError: They were not.
    """
    try:
        "".join(row).encode()
    except UnicodeEncodeError as error:  # "surrogateescape" has let it through
        raise PelError("the row is not UTF-8; save the file as UTF-8") from error
