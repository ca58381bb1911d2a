"""The files beside the records of a KB: on the disk and whole before they get their name, and known by their hashes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from ..errors import PelError
from ..files.folders import sync
from ..files.hashes import sample_digest, sha256


class FileRecord(TypedDict):
    """What `meta` keeps of a file.

    Attributes:
        name: The path, relative to the folder of the KB.
        size: Its bytes.
        sha256: The hash of all of them.
        sample: `sample_digest` of the file.
    """

    name: str
    size: int
    sha256: str
    sample: str


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to. The file gets its name when the block ends, and goes when it raises."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        sync(part)
        part.rename(path)
        sync(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def record_of(folder: Path, path: Path) -> FileRecord:
    """The record of the file at `path` in the KB at `folder`. Reads all of it."""
    name = path.relative_to(folder).as_posix()
    return {"name": name, "size": path.stat().st_size, "sha256": sha256(path), "sample": sample_digest(path)}


def checked(folder: Path, record: FileRecord, name: re.Pattern[str]) -> Path:
    """The path of a file, once it is known to be there and the one that was recorded. `name`: What it may be called.

    Raises:
        PelError: The record names another kind of file, or the file is missing, of another size or another one. To read
            past the end of a mapped file would end the process, so its size comes first.
    """
    path, size = _place(folder, record, name), record["size"]
    if not path.is_file():
        raise PelError(f"{path}: the file is missing")
    if path.stat().st_size != size:
        raise PelError(f"{path}: has {path.stat().st_size} bytes instead of {size}")
    if sample_digest(path) != record["sample"]:
        raise PelError(f"{path}: is a file of another KB")
    return path


def changed(folder: Path, record: FileRecord, name: re.Pattern[str]) -> str | None:
    """What is wrong with a file, all of which is read; None if all is well. `name`: What it may be called."""
    try:
        path = _place(folder, record, name)
    except PelError as error:
        return str(error)
    if not path.is_file():
        return f"{path}: the file is missing"
    if sha256(path) != record["sha256"]:
        return f"{path}: its SHA-256 is not the one that meta recorded: the file has changed since it was written"
    return None


def copy_file(folder: Path, to: Path, record: FileRecord, name: re.Pattern[str]) -> None:
    """Copy a file of the KB at `folder` to the one at `to`. `name`: What it may be called.

    Raises:
        PelError: The record names another kind of file, or the file is gone.
    """
    source, copy = _place(folder, record, name), to / record["name"]
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, copy)
    except FileNotFoundError as error:
        raise PelError(f"{folder}: has changed since it was opened; open the KB again and repeat.") from error


def refuse_link(place: Path) -> None:
    """Raise `PelError` if a folder for files is a link, and leads to what may be another's."""
    if place.is_symlink():
        raise PelError(f"{place}: is a link; copy the KB (kb.copy_to) and change the copy.")


def _place(folder: Path, record: FileRecord, name: re.Pattern[str]) -> Path:
    """The path of a file, which its name does not lead out of the folder."""
    if not name.fullmatch(record["name"]):
        raise PelError(f"{folder}: its meta names {record['name']}, which is no file of an index")
    return folder / record["name"]
