"""A file or folder that one process has for itself."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file or folder for the block, or as long as the process lives. Yields whether nobody else has it."""
    if fcntl is None:  # Windows, where what is open cannot be renamed
        yield True
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # it is gone by now
        yield True
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def created(new_name: Callable[[], Path], create: Callable[[Path], object]) -> Iterator[Path]:
    """Create a file or folder under a name of its own, and lock it for the block, which is given its path.

    Another process may take it for what a killed one has left before it is locked, and is about to remove it: then
    another is created, under another name.

    Args:
        new_name: Gives a path at which nothing is, each time another.
        create: Creates what is to be there.
    """
    while True:
        path = new_name()
        create(path)
        with locked(path) as ours:
            if ours and path.exists():
                yield path
                return


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks have no locks
        return True
    return True
