"""Folders as one byte string."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly


def pack_folder(folder: Path) -> bytes:
    """All files below `folder`, with their relative paths, as one msgpack byte string."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return srsly.msgpack_dumps({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


def unpack_folder(data: bytes, folder: Path) -> None:
    """Write the files of `pack_folder` below `folder`."""
    files: Any = srsly.msgpack_loads(data)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
