"""Exact search over entity vectors, in memory or memory-mapped: the only file that imports faiss."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

try:
    import faiss
except ImportError as error:
    raise ImportError('faiss is missing: python -m pip install "spacy-pel[cpu]", or "spacy-pel[gpu]"') from error

from ..errors import PelError
from .folders import sync

# From this many queries on, a search is one matrix product (BLAS): at 384 dimensions about 13 times faster.
faiss.cvar.distance_compute_blas_threshold = 20

SAMPLES, SAMPLE_BYTES = 64, 4096

# The threads of OpenMP do not survive a fork: a child that waits for them hangs.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(faiss.omp_set_num_threads, 1))


class VectorIndex:
    """Vectors by row, searched by inner product. A mapped index is never added to: faiss would abort the process."""

    def __init__(self, index: faiss.IndexFlatIP) -> None:
        self._index = index

    @classmethod
    def build(cls, vectors: np.ndarray) -> VectorIndex:
        """An index in memory over `vectors` (n, dim), of which it keeps a float32 copy."""
        return cls.stream([vectors], vectors.shape[1])

    @classmethod
    def stream(cls, blocks: Iterable[np.ndarray], dim: int) -> VectorIndex:
        """An index in memory over `blocks` of vectors (n, dim), one after the other."""
        index = faiss.IndexFlatIP(dim)
        for block in blocks:
            index.add(np.ascontiguousarray(block, dtype=np.float32))
        return cls(index)

    @classmethod
    def open(cls, path: Path) -> VectorIndex:
        """Map the file at `path`; nothing is read before the first search.

        RAISES: `PelError` where the file is not a flat index. The file has to be whole: check its size before.
        """
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise PelError(f"{path}: faiss cannot read this file as vectors") from error
        if not isinstance(index, faiss.IndexFlatIP):
            raise PelError(f"{path}: holds a faiss {type(index).__name__}, not a flat index of inner products")
        return cls(index)

    @staticmethod
    def write(path: Path, blocks: Iterable[np.ndarray], *, count: int, dim: int) -> str:
        """Stream `count` vectors, in `blocks` (n, dim) of row order, into a new file at `path`; return its SHA-256.

        The file is complete and on the disk before it gets its name. Memory: one block.

        RAISES: `PelError` for a vector that is not finite, a block of another shape, too few or too many vectors.
        """
        partial_path = path.with_name(f"{path.name}.part")
        sha256 = hashlib.sha256()
        try:
            with partial_path.open("wb") as file:
                for chunk in _serialised(blocks, count, dim):
                    sha256.update(chunk)
                    file.write(chunk)
            sync(partial_path)
            partial_path.rename(path)
            sync(path.parent)
        except BaseException:
            partial_path.unlink(missing_ok=True)
            raise
        return sha256.hexdigest()

    @staticmethod
    def sample_digest(path: Path) -> str:
        """A hash of `SAMPLES` blocks spread over the file: tells a foreign file at once, where SHA-256 reads it all."""
        blake2b, size = hashlib.blake2b(digest_size=16), path.stat().st_size
        with path.open("rb") as file:
            for i in range(SAMPLES):
                file.seek(i * max(size - SAMPLE_BYTES, 0) // (SAMPLES - 1))
                blake2b.update(file.read(SAMPLE_BYTES))
        return blake2b.hexdigest()

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def dim(self) -> int:
        return self._index.d

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The `k` rows with the largest inner product for each of `queries` (q, dim).

        RETURNS: scores (q, k) float32 and rows (q, k) int64, best first, of equal scores the lower row first. Where
            there are fewer than `k` rows, the rest is row -1 with score -inf.
        RAISES: `PelError` for queries of another dimension.
        """
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise PelError(
                f"The queries have the shape {queries.shape}, the KB's vectors have {self.dim} dimensions: "
                f"search with the encoder that indexed the KB."
            )
        scores, rows = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), k)
        scores[rows < 0] = -np.inf
        order = np.lexsort((rows, -scores), axis=-1)
        return np.take_along_axis(scores, order, axis=-1), np.take_along_axis(rows, order, axis=-1)


def _serialised(blocks: Iterable[np.ndarray], count: int, dim: int) -> Iterable[bytes | memoryview]:
    """The bytes of a faiss `IndexFlatIP` file: its header, then the vectors, checked on the way."""
    yield _header(count, dim)
    written = 0
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != dim:
            raise PelError(f"A block of vectors has the shape {block.shape}, expected (n, {dim}).")
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            raise PelError(
                f"The vector of KB row {written + int(np.argmin(finite))} is not finite; "
                f"check the encoder's weights and train again."
            )
        written += len(block)
        if written > count:
            break
        yield np.ascontiguousarray(block, dtype="<f4").data.cast("B")
    if written != count:
        raise PelError(
            f"Got {'more' if written > count else written} vectors for {count} entities; give one vector each."
        )


def _header(count: int, dim: int) -> bytes:
    inner_product, trained, unused = 0, True, 1 << 20
    return struct.pack("<4siqqq?iQ", b"IxFI", dim, count, unused, unused, trained, inner_product, count * dim)
