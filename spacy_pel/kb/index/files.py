"""The files of an index: written once, whole and on the disk before they get their name, and known by their hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import TypedDict

import numpy as np

from ...errors import PelError
from ...files.folders import sync
from ...files.hashes import sha256

SAMPLES, SAMPLE_BYTES = 64, 4096
NAME = re.compile(r"(indexes/[a-z0-9][a-z0-9_-]{0,99}/(vectors|owners)|vectors)-\d+\.(npy|faiss)")


class FileRecord(TypedDict):
    """What `meta` keeps of a file.

    Attributes:
        name: The path, relative to the folder of the KB.
        size: Its bytes.
        sha256: The hash of all of them.
        sample: `sample_digest` of the file.
    """

    name: str
    size: int
    sha256: str
    sample: str


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to. The file gets its name when the block ends, and goes when it raises."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        sync(part)
        part.rename(path)
        sync(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def record_of(folder: Path, path: Path) -> FileRecord:
    """The record of the file at `path` in the KB at `folder`. Reads all of it."""
    name = path.relative_to(folder).as_posix()
    return {"name": name, "size": path.stat().st_size, "sha256": sha256(path), "sample": sample_digest(path)}


def checked(folder: Path, record: FileRecord) -> Path:
    """The path of a file, once it is known to be there and whole.

    Raises:
        PelError: The record names no file of an index, or the file is missing, of another size or another file. To read
            past the end of a mapped file would end the process, so its size comes first.
    """
    if not NAME.fullmatch(record["name"]):
        raise PelError(f"{folder}: its meta names {record['name']}, which is no file of an index")
    path, size = folder / record["name"], record["size"]
    if not path.is_file():
        raise PelError(f"{path}: the file is missing")
    if path.stat().st_size != size:
        raise PelError(f"{path}: has {path.stat().st_size} bytes instead of {size}")
    return path


def sample_digest(path: Path) -> str:
    """A hash of `SAMPLES` blocks spread over the file. It tells a foreign file at once, where SHA-256 reads it all."""
    blake2b, size = hashlib.blake2b(digest_size=16), path.stat().st_size
    with path.open("rb") as file:
        for i in range(SAMPLES):
            file.seek(i * max(size - SAMPLE_BYTES, 0) // (SAMPLES - 1))
            blake2b.update(file.read(SAMPLE_BYTES))
    return blake2b.hexdigest()


def write_array(path: Path, blocks: Iterable[np.ndarray], *, shape: tuple[int, ...], dtype: str) -> None:
    """Write an array of that shape, block by block, to a `.npy` file."""
    with path.open("wb") as file:
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).data)


def map_array(path: Path) -> np.ndarray:
    """The array in a `.npy` file, memory-mapped: nothing is read before it is used.

    Raises:
        PelError: The file holds no array.
    """
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, TokenError) as error:
        raise PelError(f"{path}: numpy cannot read this file as an array") from error


def checked_blocks(blocks: Iterable[np.ndarray], count: int, dim: int) -> Iterator[np.ndarray]:
    """Pass on `blocks` (n, dim) of vectors.

    Raises:
        PelError: A vector is not finite, a block has another shape, or there are not `count` vectors in all.
    """
    written = 0
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != dim:
            raise PelError(f"A block of vectors has the shape {block.shape}, expected (n, {dim}).")
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            raise PelError(
                f"Vector {written + int(np.argmin(finite))} is not finite; check the encoder's weights and train again."
            )
        written += len(block)
        if written > count:
            break
        yield block
    if written != count:
        got = "more" if written > count else written
        raise PelError(f"Got {got} vectors, expected {count}: give one for each entity, or each number in `owners`.")
