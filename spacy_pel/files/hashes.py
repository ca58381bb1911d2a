"""What a file is known by once it is written: its size and its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypedDict

from ..errors import PelError

SAMPLES, SAMPLE_BYTES = 64, 4096


class Hash(TypedDict):
    """The size of a file in bytes, and the SHA-256 of all of them."""

    size: int
    sha256: str


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def sample_digest(path: Path) -> str:
    """A hash of `SAMPLES` blocks spread over the file. It tells a foreign file at once, where SHA-256 reads it all."""
    blake2b, size = hashlib.blake2b(digest_size=16), path.stat().st_size
    with path.open("rb") as file:
        for i in range(SAMPLES):
            file.seek(i * max(size - SAMPLE_BYTES, 0) // (SAMPLES - 1))
            blake2b.update(file.read(SAMPLE_BYTES))
    return blake2b.hexdigest()


def hash_of(path: Path) -> Hash:
    """The hash of the file at `path`."""
    return {"size": path.stat().st_size, "sha256": sha256(path)}


def check_hash(path: Path, expected: Hash) -> None:
    """Check that the file at `path` is the one that was written.

    Raises:
        PelError: The file is missing, of another size, or has other bytes.
    """
    if not path.is_file():
        raise PelError(f"{path}: the file is missing; copy the folder again.")
    if (size := path.stat().st_size) != expected["size"]:
        raise PelError(f"{path}: has {size:,} bytes instead of {expected['size']:,}; copy the folder again.")
    if sha256(path) != expected["sha256"]:
        raise PelError(f"{path}: has changed since it was saved: its SHA-256 is another; copy the folder again.")
