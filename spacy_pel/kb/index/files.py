"""The arrays of an index in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tokenize import TokenError

import numpy as np

from ...errors import PelError


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
