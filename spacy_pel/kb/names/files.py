"""The file of an index of names: what `meta` says of it, where it lies, and which may go."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from ...files.folders import sync
from ..stored_files import FileRecord, appearing, checked, record_of, refuse_link
from .building import write_file
from .file_names import FileNames
from .grams import Vocabulary
from .layout import Layout

FOLDER = "names"
FILE_NAME = re.compile(rf"{FOLDER}/grams-(\d+)\.bin")


class NamesRecord(FileRecord):
    """What `meta` keeps of the file.

    Attributes:
        bits: See `Layout`.
        arrays: See `Layout.places`.
    """

    bits: int
    arrays: dict[str, Any]


def write_names(folder: Path, forms: Iterable[list[str]], before: NamesRecord | None) -> tuple[NamesRecord, Vocabulary]:
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
    try:
        place.mkdir(exist_ok=True)
        sync(folder)
        with appearing(path) as part:
            layout, vocabulary = write_file(part, forms)
    except OSError as error:
        raise PelError(f"{path}: cannot be written ({error.strerror}); make room on its disk and repeat.") from error
    return {**record_of(folder, path), "bits": layout.bits, "arrays": layout.places}, vocabulary


def mapped_names(folder: Path, record: NamesRecord, n_grams: int) -> FileNames:
    """The names in the file of the KB at `folder`, memory-mapped: nothing is read before it is used.

    Args:
        folder: Of the KB.
        record: What `meta` has of the file.
        n_grams: How many 3-grams the index numbers.

    Raises:
        PelError: The file is missing or another one.
    """
    try:
        path = checked(folder, record, FILE_NAME)
    except PelError as error:
        raise PelError(f"{error}; copy it again, or run `python -m spacy pel kb compact {folder}`.") from error
    layout = Layout(record["bits"], record["arrays"])
    return FileNames(layout.views(np.memmap(path, np.uint8, "r")), layout.bits, n_grams)


def is_there(folder: Path, record: NamesRecord) -> bool:
    """Whether the KB at `folder` has the file."""
    try:
        return checked(folder, record, FILE_NAME).is_file()
    except PelError:
        return False


def remove_others(folder: Path, record: FileRecord | None) -> None:
    """Remove the files of names but for the one of `record`: replaced ones, and what killed processes left. Those that
    cannot be removed now stay for a later change, as those of indexes do.

    Raises:
        PelError: The folder for them is a link, and leads to what may be another's.
    """
    place = folder / FOLDER
    refuse_link(place)
    for path in place.glob("grams-*"):
        if record is None or path != folder / record["name"]:
            with suppress(PermissionError):
                path.unlink()
    with suppress(OSError):
        place.rmdir()


def _number(record: FileRecord | None) -> int:
    found = FILE_NAME.fullmatch(record["name"]) if record else None
    return int(found[1]) if found else 0
