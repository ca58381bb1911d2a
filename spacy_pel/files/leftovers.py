"""What a killed process leaves in a folder that it was saving to, and who may save there.

Before a process writes, it announces in `.saving` all names that may not be in use afterwards. Whoever saves next
removes those that are not.
"""

from __future__ import annotations

import glob
import json
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import PelError
from .atomic import write_atomically
from .locks import locked

ANNOUNCED = ".saving"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no other process save to `folder` meanwhile. The lock goes with its process.

    Raises:
        PelError: Another process does.
    """
    with locked(folder) as nobody_else:
        if not nobody_else:
            raise PelError(f"{folder}: another process is saving here; wait until it has.")
        yield


def announce(folder: Path, names: Iterable[str]) -> None:
    """Say which names may not be in use any more if this process is killed: those of before, and the new ones."""
    write_atomically(folder / ANNOUNCED, json.dumps(sorted(names)).encode())


def _announced(folder: Path) -> list[str]:
    try:
        names = json.loads((folder / ANNOUNCED).read_bytes())
    except (OSError, ValueError):
        return []
    return [name for name in names if is_plain(name)] if isinstance(names, list) else []


def clean(folder: Path, in_use: Collection[str]) -> None:
    """Remove what was announced here and is not in use, with the temporary folders beside it."""
    for name in set(_announced(folder)) - set(in_use):
        _remove(folder / name)
        for path in folder.glob(f".{glob.escape(name)}.???-*"):  # .new- and .old-: see `files.folders`
            _remove(path)
    (folder / ANNOUNCED).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a file or folder, so that nobody finds a part of it under its name."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        hidden = path.with_name(f".{path.name.lstrip('.')}.old-{secrets.token_hex(4)}")
        if not path.name.startswith("."):
            path.rename(hidden)
            path = hidden
        shutil.rmtree(path, ignore_errors=True)


def is_plain(name: Any) -> bool:
    """Whether `name` is one of a file or folder in a folder, and leads nowhere else."""
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name
