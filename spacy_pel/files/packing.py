"""Folders as one byte string."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly

from ..errors import PelError


def pack_folder(folder: Path) -> bytes:
    """All files below `folder`, with their relative paths, as one msgpack byte string."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return srsly.msgpack_dumps({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


def unpack_folder(data: bytes, folder: Path) -> None:
    """Write the files of `pack_folder` below `folder`.

    Raises:
        PelError: `data` is something else, or names a file that is not below `folder`.
    """
    try:
        files: Any = srsly.msgpack_loads(data)
        paths = {folder.joinpath(name): memoryview(content) for name, content in files.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise PelError(f"These bytes were not written by to_bytes ({error}); make them again.") from error
    inside = folder.resolve()
    for path, content in paths.items():
        if inside not in path.resolve().parents:
            raise PelError(f"These bytes name a file outside their folder, {path.name}; do not use them.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
