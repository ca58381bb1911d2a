"""Lines of text in files, plain or gzipped, read as bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import PelError


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of the file at `path`, unpacked if its name ends in ".gz".

    Raises:
        PelError: The file is no gzip file, or only the beginning of one.
    """
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as unpacked:
            yield cast(BinaryIO, unpacked)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise PelError(f"{path}: is not a whole gzip file ({error}); download it again.") from error


def decoded(line: bytes) -> str:
    """`line` as text.

    Raises:
        PelError: It is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise PelError(f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8") from error


def check_text(path: Path) -> None:
    """Read the file through.

    Raises:
        PelError: As for `opened`, or naming the first line that is not UTF-8.
    """
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                decoded(line)
            except PelError as error:
                raise PelError(f"{path}:{number}: {error}.") from error


def unpacked_suffix(path: Path) -> str:
    """The suffix of `path` without the ".gz"."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix
