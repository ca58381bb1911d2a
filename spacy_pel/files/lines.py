"""Lines of text in files, plain or gzipped, read as bytes."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, AnyStr, BinaryIO, cast

from ..errors import PelError

LONGEST_LINE = 1 << 24  # bytes or characters: a file without line ends is no list of records, and need not be held

BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)  # what reading a file raises that is none, or a part of one


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of the file at `path`, unpacked if its name ends in ".gz", in letters of any case.

    Raises:
        PelError: The file is no gzip file, or only the beginning of one.
    """
    if not _is_packed(path):
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as unpacked:
            yield cast(BinaryIO, unpacked)
    except BROKEN_GZIP as error:
        raise PelError(f"{path}: is not a whole gzip file ({error}); download it again.") from error


def lines(path: Path, file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of `file`, which was opened from `path`.

    Raises:
        PelError: One is longer than any record is.
    """
    for number in count(1):
        line = file.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            raise PelError(f"{path}:{number}: the line has over {LONGEST_LINE >> 20} MB; write one record a line.")
        if not line:
            return
        yield line


def numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line) of every line of the file at `path`, without the mark of the byte order that may precede them.

    Raises:
        PelError: As for `opened` and `lines`.
    """
    with opened(path) as file:
        for number, line in enumerate(lines(path, file), start=1):
            yield number, line.removeprefix(BOM_UTF8) if number == 1 else line


def decoded(line: bytes) -> str:
    """`line` as text.

    Raises:
        PelError: It is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise PelError(f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8") from error


def unpacked_suffix(path: Path) -> str:
    """The suffix of `path` without the ".gz", in small letters."""
    return (path.with_suffix("") if _is_packed(path) else path).suffix.lower()


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
