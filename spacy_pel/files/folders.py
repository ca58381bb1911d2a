"""Folders that appear at once: written under a temporary name beside their place, then renamed into it."""

from __future__ import annotations

import glob
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..errors import PelError
from .exchange import exchange
from .locks import created, locked

logger = logging.getLogger("spacy_pel")
OF_SYSTEMS = r"\.DS_Store|\._.*|\.gitattributes|\.directory|Thumbs\.db|desktop\.ini|\.nfs\w+"


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder that appears at once, with all its files, or not at all. A link at `path` stays one: the folder is
    to be where it leads.

    A folder already at `path` stays untouched until the new one is complete: then the two change places at once, and it
    is removed. Where the system cannot do that, it is renamed aside first, since a rename onto a folder fails. What a
    killed process left of either kind is cleaned up here; a folder left aside only after the swap: it may be the last
    complete one.

    Args:
        path: Where the folder is to be.

    Yields:
        An empty folder. It becomes `path` when the block ends, and vanishes when it raises.

    Raises:
        PelError: Another process is writing a folder to be at `path`, or none can be made there.
    """
    path = _target(path)
    if path.is_mount():
        raise PelError(f"{path}: is a mount point and cannot be replaced; name a folder in it.")
    _make(path.parent, path)
    for other in _siblings(path, "new"):
        with locked(other) as abandoned:
            if not abandoned:
                raise PelError(
                    f"{path}: another process is writing it; wait until that is done, or name another folder."
                )
            shutil.rmtree(other, ignore_errors=True)
    with created(partial(_sibling, path, "new"), partial(_make, wanted=path)) as folder:
        yield from _filled(path, folder)


def _make(folder: Path, wanted: Path) -> None:
    """Make `folder`, and those above it, on the way to one that is `wanted`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PelError(f"{wanted}: cannot be written ({error.strerror}); choose another folder.") from error


def _filled(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the new `folder`, then put it at `path`."""
    aside = None
    try:
        yield folder
        sync_all(folder)
        if not path.exists():
            folder.rename(path)
        elif not exchange(path, folder):
            aside = _sibling(path, "old")
            path.rename(aside)
            folder.rename(path)
        sync(path.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if aside is not None and not path.exists():
            aside.rename(path)
        raise
    for old in filter(Path.exists, (folder, *left_aside(path))):
        shutil.rmtree(old, ignore_errors=True)
        logger.info("%s: removed the folder that was there before", path)


def left_aside(path: Path) -> list[Path]:
    """The folders that were renamed aside to make room at `path` and not removed yet."""
    return _siblings(_target(path), "old")


def check_not_left_aside(path: Path) -> None:
    """Raise `PelError` where there is no KB at `path`, and a killed process has left the one that was there aside."""
    if not path.exists() and (aside := left_aside(path)):
        raise PelError(
            f"{path}: there is no KB; {aside[-1]} is the one that a killed process was about to replace: rename "
            f"it back or build the KB again."
        )


def sync_all(path: Path) -> None:
    """Wait until a file, or a folder with all in it, is on the disk."""
    for file in (*path.rglob("*"), path):
        sync(file)


def sync(path: Path) -> None:
    """Wait until the file or folder at `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _target(path: Path) -> Path:
    """Where `path` leads, be it a link."""
    return Path(os.path.realpath(path))


def _sibling(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{kind}-{secrets.token_hex(4)}")


def _siblings(path: Path, kind: str) -> list[Path]:
    return sorted(path.parent.glob(f".{glob.escape(path.name)}.{kind}-*"))


def check_replaceable(path: Path, names: str) -> None:
    """Refuse to replace what is no KB.

    Args:
        path: Free, or a folder with nothing but the files of a KB, be they broken.
        names: A regular expression for the names of these files.

    Raises:
        PelError: Something else is at `path`.
    """
    if path.is_dir():
        if others := strangers(path, names):
            raise PelError(
                f'{path}: is not a KB (it holds "{min(others)}") and is not replaced; choose another folder.'
            )
    elif path.exists():
        raise PelError(f"{path}: is a file, not a KB folder, and is not replaced; choose another folder.")


def strangers(folder: Path, names: str) -> list[str]:
    """What a folder holds beside files whose names the regular expression `names` describes, and those that systems put
    there."""
    own = re.compile(f"({names})|{OF_SYSTEMS}")
    return [path.name for path in folder.iterdir() if not own.fullmatch(path.name)]
