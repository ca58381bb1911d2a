"""A file or folder that one process has for itself."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file or folder for the block, or as long as the process lives. Yields whether nobody else has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # it is gone by now, or this is Windows, where folders cannot be locked
        yield True
        return
    try:
        yield fcntl is None or _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks have no locks
        return True
    return True
