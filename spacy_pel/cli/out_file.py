"""What a command is to write, checked before anything is read or loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations
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


def make_folder(plots: Path) -> None:
    """Make the folder for figures.

    Raises:
        PelError: If it cannot be made.
    """
    try:
        plots.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PelError(f"--plots {plots}: no such folder can be made ({error.strerror}); choose another") from error


def check_apart(named: Iterable[tuple[str, Path | None]]) -> None:
    """Check that what a command reads and writes are different files and folders.

    Args:
        named: What the command calls a path, and the path if it is given.

    Raises:
        PelError: Two of them are one, which would be replaced, or one is in the other, and would be read as a part of
            it.
    """
    given = [(name, path) for name, path in named if path is not None]
    for (one, path), (other, same) in combinations(given, 2):
        if path.resolve() == same.resolve():
            raise PelError(f"{path} is both {one} and {other}, and would be replaced: choose another for {other}")
        if path.resolve() in same.resolve().parents:
            raise PelError(f"{same} ({other}) is in {path} ({one}), and would be read with it: name another folder")
