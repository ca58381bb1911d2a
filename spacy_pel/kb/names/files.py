"""The file of an index of names: what `meta` says of it, where it lies, and which may go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from ...files.folders import sync
from ...files.hashes import hash_of, sample_digest, sha256
from .building import write_file
from .file_names import FileNames
from .grams import Vocabulary
from .layout import Layout

FOLDER = "names"
NAME = re.compile(rf"{FOLDER}/grams-(\d+)\.bin")


def write_names(folder: Path, forms: Iterable[list[str]], before: dict[str, Any] | None) -> tuple[dict, Vocabulary]:
    """Write a new file beside the one that there is. It counts once `meta` names it.

    Args:
        folder: Of the KB.
        forms: The `distinct_forms` of the entities, from row 0.
        before: What `meta` has of the file that this one is to replace.

    Returns:
        What `meta` is to have of it, and the 3-grams that it numbers.

    Raises:
        PelError: The file cannot be written.
    """
    place = folder / FOLDER
    path = place / f"grams-{_number(before) + 1}.bin"
    part = path.with_name(f"{path.name}.part")
    try:
        place.mkdir(exist_ok=True)
        sync(folder)
        layout, vocabulary = write_file(part, forms)
        sync(part)
        part.rename(path)
        sync(place)
    except OSError as error:
        raise PelError(f"{path}: cannot be written ({error.strerror}); make room on its disk and repeat.") from error
    finally:
        part.unlink(missing_ok=True)
    name = path.relative_to(folder).as_posix()
    return {
        "name": name,
        **hash_of(path),
        "sample": sample_digest(path),
        "bits": layout.bits,
        "arrays": layout.places,
    }, vocabulary


def mapped_names(folder: Path, record: dict[str, Any], n_grams: int) -> FileNames:
    """The names in the file of the KB at `folder`, memory-mapped: nothing is read before it is used.

    Args:
        folder: Of the KB.
        record: What `meta` has of the file.
        n_grams: How many 3-grams the index numbers.

    Raises:
        PelError: The file is missing or another one.
    """
    if not is_there(folder, record):  # to read past the end of a mapped file would end the process
        raise PelError(
            f"{_path(folder, record)}: is missing, or not the file that was written; copy it again, or run `python -m "
            f"spacy pel kb compact {folder}`."
        )
    layout = Layout(record["bits"], record["arrays"])
    data = np.memmap(_path(folder, record), np.uint8, "r")
    return FileNames(layout.views(data), layout.bits, n_grams)


def is_there(folder: Path, record: dict[str, Any]) -> bool:
    """Whether the KB at `folder` has the file, by its size and a sample of its bytes."""
    path = _path(folder, record)
    return path.is_file() and path.stat().st_size == record["size"] and sample_digest(path) == record["sample"]


def changed(folder: Path, record: dict[str, Any]) -> str | None:
    """What is wrong with the file, all of which is read; None if all is well."""
    path = _path(folder, record)
    if not path.is_file():
        return f"{path}: the file is missing"
    if sha256(path) != record["sha256"]:
        return f"{path}: its SHA-256 is not the one that meta recorded: the file has changed since it was written"
    return None


def copy_file(folder: Path, to: Path, record: dict[str, Any]) -> None:
    """Copy the file of the KB at `folder` to the one at `to`."""
    (to / FOLDER).mkdir(exist_ok=True)
    shutil.copyfile(_path(folder, record), to / record["name"])


def remove_others(folder: Path, record: dict[str, Any] | None) -> None:
    """Remove the files of names but for the one of `record`: replaced ones, and what killed processes left.

    Raises:
        PelError: The folder for them is a link, and leads to what may be another's.
    """
    place = folder / FOLDER
    if place.is_symlink():
        raise PelError(f"{place}: is a link; copy the KB (kb.copy_to) and change the copy.")
    for path in place.glob("grams-*"):
        if record is None or path != folder / record["name"]:
            path.unlink()
    with suppress(OSError):
        place.rmdir()


def _path(folder: Path, record: dict[str, Any]) -> Path:
    if not NAME.fullmatch(record["name"]):
        raise ValueError(f"meta names {record['name']}, which is no file of names")
    return folder / record["name"]


def _number(record: dict[str, Any] | None) -> int:
    found = NAME.fullmatch(record["name"]) if record else None
    return int(found[1]) if found else 0
