"""The file that a command is to write, checked before anything is read or loaded."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import PelError


def check_out(out: Path, source: Path, source_name: str, force: bool) -> None:
    """Check that `out` can and should be written.

    Args:
        out: The file.
        source: What is read.
        source_name: What the command calls it.
        force: Whether a file at `out` is replaced.

    Raises:
        PelError: If not.
    """
    if out.is_dir():
        raise PelError(f"{out} is a folder; name a file.")
    if out.exists() and source.exists() and out.samefile(source):
        raise PelError(f"{out} is {source_name} too; name another file.")
    if out.exists() and not force:
        raise PelError(f"{out} is there already; name another file or add --force to replace it.")
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not os.access(nearest, os.W_OK) or (nearest != out and not nearest.is_dir()):
        raise PelError(f"{out} cannot be written: {nearest} cannot; name another file.")
