"""Files that are written whole or not at all."""

from __future__ import annotations

import glob
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import PelError
from .locks import created, locked

HEX = "[0-9a-f]" * 8  # what tells one temporary file of "out" from another; those of "out.gz" have ".gz" before it


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` as `new_file` does.

    Raises:
        PelError: The file cannot be written, or `path` is anything but a file.
    """
    with refused_by_name(path), new_file(path) as file:
        file.write(data)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines of text as `new_file` does, and return how many they were. They are not held in memory.

    Raises:
        PelError: As for `write_atomically`.
    """
    written = 0
    with refused_by_name(path), new_file(path) as file:
        for line in lines:
            written += 1
            file.write(f"{line}\n".encode())
    return written


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, as `write_atomically` does.

    Raises:
        PelError: As there.
        ValueError: A number is not finite.
    """
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def check_writable(path: Path) -> None:
    """Check before long work that `path` can be written. Folders above it are made.

    Raises:
        PelError: It cannot, or is anything but a file.
    """
    _check_replaceable(path)
    with refused_by_name(path):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.absolute().parent).close()


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, under a temporary name beside `path`. It becomes `path` when the block ends, and vanishes when
    it raises.

    A reader never sees, and a killed writer never leaves, half a file under the real name. Folders above `path` are
    made.

    Raises:
        OSError: The file cannot be written.
        PelError: `path` is anything but a file.
    """
    _check_replaceable(path)
    target = Path(os.path.realpath(path))  # a link stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    with created(lambda: target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp"), Path.touch) as temporary:
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _check_replaceable(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise PelError(f"{path} is no file that could be replaced; name another.")


@contextmanager
def refused_by_name(path: Path) -> Iterator[None]:
    """What the system refuses in this block is a `PelError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise PelError(f"{path} cannot be written: {error.strerror}; name another file.") from error


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes have left of earlier writes to `target`."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{HEX}.tmp"):
        with locked(left) as abandoned:
            if abandoned:
                left.unlink(missing_ok=True)
