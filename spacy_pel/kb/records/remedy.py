"""What is said where the SQLite file of a KB cannot be read or changed: only what is the matter, and what helps."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import PelError
from ..damage import damage

LOCKED = "locked"  # what SQLite says of a file that others use


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite in the block, which reads the file at `path`, into what helps.

    Raises:
        PelError: The file is broken, or cannot be read now.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if any(word in str(error) for word in ("malformed", "decode", "no such")):
            raise PelError(damage(path, error)) from error
        raise PelError(
            f"{path}: cannot be read now ({error}); check that the file and its disk can be read, wait until no other "
            f"process changes this KB, and try again."
        ) from error
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise  # of a closed KB, or of what was asked for: nothing is wrong with the file
    except (sqlite3.Error, json.JSONDecodeError) as error:
        raise PelError(f"{path}: cannot be read as the entity file of a KB ({error}); {remedy(path)}") from error


@contextmanager
def change_errors(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite in the block, which changes the file at `path`, into what helps.

    Raises:
        PelError: The file is broken, or cannot be changed now.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if LOCKED in str(error):
            raise PelError(
                f"{path}: cannot be changed now ({error}); wait until no other process changes this KB or reads all of "
                f"it, as `kb verify` does, and run the command again."
            ) from error
        raise PelError(
            f"{path}: cannot be changed ({error}); make it writable, check that the disk is not full, and run the "
            f"command again."
        ) from error
    except sqlite3.Error as error:
        raise PelError(damage(path, error)) from error
    except PermissionError as error:  # of the files beside the records
        raise PelError(
            f"{path.parent}: cannot be changed ({error}); make the folder and all in it writable, and run the command "
            f"again."
        ) from error


def remedy(path: Path) -> str:
    """What to do where the KB with the entity file `path` cannot be opened."""
    folder = path.parent
    pipeline = folder.parent.parent
    if folder.is_file():
        return f"{folder.name} is a file: build a KB from it with `python -m spacy pel build-kb {folder} kb`."
    if (folder / "config.cfg").is_file():
        return f"{folder.name} is a pipeline: name a KB folder that `python -m spacy pel build-kb` wrote."
    if (folder.parent / "config.cfg").is_file():
        return f"{folder.name} is a part of the pipeline {folder.parent}: name that, or a KB folder."
    if (pipeline / "config.cfg").is_file():
        return f"index again with its KB folder: `python -m spacy pel index {pipeline} KB {pipeline} --force`."
    force = " --force" if folder.exists() else ""
    return f"build the KB with `python -m spacy pel build-kb SOURCE {folder}{force}`."
