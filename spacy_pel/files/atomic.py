"""Files that are written whole or not at all."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path

from ..errors import PelError
from .locks import locked


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name beside `path`, then rename it.

    A reader never sees, and a killed writer never leaves, half a file under the real name. Folders above `path` are
    made.

    Raises:
        PelError: The file cannot be written, or `path` is anything but a file.
    """
    if path.exists() and not path.is_file():
        raise PelError(f"{path} is no file that could be replaced; name another.")
    target = Path(os.path.realpath(path))  # a link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        with temporary.open("wb") as file, locked(temporary):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise PelError(f"{path} cannot be written: {error.strerror}; name another file.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes have left of earlier writes to `target`."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        with locked(left) as abandoned:
            if abandoned:
                left.unlink(missing_ok=True)
