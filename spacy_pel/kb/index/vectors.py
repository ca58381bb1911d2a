"""Search over vectors, exact or compressed, in memory or memory-mapped.

Exact vectors are a plain array (a `.npy` file), searched by `faiss.knn`. Compressed ones are an index of faiss.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import faiss
import numpy as np

from ...errors import PelError, first_line
from ..numbering import VectorNumbers
from ..stored_files import appearing
from .best import best
from .compressed import (
    FLAT,
    UNREADABLE,
    compressed,
    faiss_damage_named,
    inverted_file,
    parameters,
    read_checked,
    refused_type,
    takes_selector,
    write_index_file,
)
from .faiss_types import keeps_lengths
from .files import checked_blocks, map_array, write_array

# From this many queries on, a search is one matrix product (BLAS): at 384 dimensions about 13 times faster.
faiss.cvar.distance_compute_blas_threshold = 20

BLOCK = 50_000  # vectors that are taken together where only some are searched
MOST_ON_GPU = 2048  # candidates of a mention, a limit of faiss

# The threads of OpenMP do not survive a fork: a child that waits for them hangs.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(faiss.omp_set_num_threads, 1))


class VectorIndex(ABC):
    """Vectors by their number, searched by inner product. A mapped index is never added to.

    Attributes:
        dim: The dimensions of a vector.
    """

    dim: int

    @classmethod
    def build(cls, vectors: np.ndarray) -> VectorIndex:
        """An exact index in memory over `vectors` (n, dim)."""
        return cls.stream([vectors], vectors.shape[1])

    @classmethod
    def stream(
        cls, blocks: Iterable[np.ndarray], dim: int, *, count: int | None = None, gpus: bool = False
    ) -> VectorIndex:
        """An exact index in memory over `blocks` of vectors (n, dim), one after the other.

        Args:
            blocks: Of any float type.
            dim: The dimensions of a vector.
            count: How many vectors there are: memory is then taken once. None: nobody knows, and it is taken twice.
            gpus: Keep a copy on every GPU, if faiss was built for them.

        Raises:
            PelError: There are not `count` vectors, or one is not finite.
        """
        if count is None:
            vectors = np.concatenate([np.zeros((0, dim), np.float32), *(np.asarray(b, np.float32) for b in blocks)])
        else:
            vectors, end = np.empty((count, dim), np.float32), 0
            for block in checked_blocks(blocks, count, dim):
                vectors[end : end + len(block)] = block
                end += len(block)
        return ExactIndex(vectors, _on_gpus(vectors) if gpus and faiss.get_num_gpus() else None)

    @classmethod
    def open(cls, path: Path) -> VectorIndex:
        """Map the file at `path`; nothing is read before the first search. It has to be whole: check its size before.

        Raises:
            PelError: The file holds no vectors, or an index that does not compare by inner product.
        """
        if path.suffix == ".npy":
            return cls._open_array(path)
        try:
            index = read_checked(path)
        except UNREADABLE as error:
            raise PelError(f"{path}: faiss cannot read this file as vectors ({first_line(error)})") from error
        if isinstance(index, faiss.IndexFlat):
            return ExactIndex(_array_of(index), owner=index)
        return FaissIndex(index, path)

    @staticmethod
    def _open_array(path: Path) -> VectorIndex:
        vectors = map_array(path)
        if vectors.ndim != 2 or vectors.dtype != np.dtype("<f4"):
            raise PelError(f"{path}: holds an array of {vectors.ndim} dimensions and type {vectors.dtype}, no vectors")
        return ExactIndex(vectors)

    @staticmethod
    def suffix(index_type: str) -> str:
        """The suffix of a file with an index of that type."""
        return ".npy" if index_type == FLAT else ".faiss"

    @staticmethod
    def write(path: Path, blocks: Iterable[np.ndarray], *, count: int, dim: int, index_type: str = FLAT) -> None:
        """Write `count` vectors to a new file, complete and on the disk before it gets its name.

        Memory: one block, and a compressed index. Disk, while a compressed one is built: also the vectors as they are.

        Args:
            path: The file, with the `suffix` of its type.
            blocks: (n, dim) each, in the order of their numbers.
            count: How many vectors there are.
            dim: The dimensions of a vector.
            index_type: "flat", or what faiss's `index_factory` takes.

        Raises:
            PelError: A vector is not finite, a block has another shape, there are too few or too many vectors, faiss
                refuses the index type or cannot search it, or there is no room for the file.
        """
        checked = checked_blocks(blocks, count, dim)
        with appearing(path) as part:
            if index_type == FLAT:
                write_array(part, checked, shape=(count, dim), dtype="<f4")
                return
            flat = path.with_name(f"{path.name}.flat.part")
            try:
                write_array(flat, checked, shape=(count, dim), dtype="<f4")
                index = compressed(map_array(flat), index_type)
                try:
                    write_index_file(index, part)
                except RuntimeError as error:  # of faiss, which writes itself
                    raise PelError(
                        f"{path}: cannot be written ({first_line(error)}); make room, and repeat."
                    ) from error
                try:
                    read_checked(part)  # what cannot be opened is never committed
                except UNREADABLE as error:
                    raise refused_type(index_type, f"searched: {first_line(error)}") from error
            finally:
                flat.unlink(missing_ok=True)

    @abstractmethod
    def __len__(self) -> int: ...

    def search(
        self,
        queries: np.ndarray,
        k: int,
        *,
        within: VectorNumbers | None = None,
        n_probe: int | None = None,
        threads: int | None = None,
    ) -> tuple[np.ndarray, VectorNumbers]:
        """The `k` vectors with the largest inner product for each of `queries` (q, dim).

        Args:
            queries: (q, dim).
            k: How many to find.
            within: The numbers to search in, ascending; None: all.
            n_probe: Cells of an inverted file to visit; None: as it was built.
            threads: Threads to use; None: as many as faiss takes.

        Returns:
            Scores (q, k) float32 and numbers (q, k) int64, best first, of equal scores the lower number first. Which of
            several that are equal at the `k`-th place are among them is left to faiss, and equal vectors may differ in
            the last bit of their scores where there are many queries. Where there are fewer than `k`, the rest is
            number -1 with score -inf.

        Raises:
            PelError: The queries have other dimensions.
        """
        check_queries(queries, self.dim)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        with _threads(threads):
            if within is None:
                scores, numbers = self._search(queries, min(k, len(self)), n_probe)
            else:
                scores, numbers = self._search_within(queries, k, within, n_probe)
        return best(scores, numbers, k)

    @abstractmethod
    def vectors(self, numbers: VectorNumbers) -> np.ndarray:
        """The vectors (n, dim) float32 with those `numbers` (n,), as exactly as the index keeps them."""

    @property
    def keeps_lengths(self) -> bool:
        """Whether these `vectors` are about as long as those that were indexed."""
        return True

    @abstractmethod
    def _search(self, queries: np.ndarray, k: int, n_probe: int | None) -> tuple[np.ndarray, VectorNumbers]: ...

    def _search_within(
        self, queries: np.ndarray, k: int, within: VectorNumbers, n_probe: int | None
    ) -> tuple[np.ndarray, VectorNumbers]:
        """Compare all vectors that are asked for, a block at a time."""
        scores, found = [np.zeros((len(queries), 0), np.float32)], [np.zeros((len(queries), 0), np.int64)]
        for start in range(0, len(within), BLOCK):
            block = VectorNumbers(within[start : start + BLOCK])
            products, places = _knn(queries, self.vectors(block), min(k, len(block)))
            scores.append(products)
            found.append(block[places])
        return np.hstack(scores), VectorNumbers(np.hstack(found))


class ExactIndex(VectorIndex):
    """The vectors as they are."""

    def __init__(self, vectors: np.ndarray, copy: faiss.Index | None = None, owner: faiss.Index | None = None) -> None:
        """Search an array.

        Args:
            vectors: (n, dim) float32.
            copy: The same vectors on GPUs, for searches in all of them.
            owner: Whose memory `vectors` is, if it is not numpy's.
        """
        self.dim = vectors.shape[1]
        self._vectors, self._copy, self._owner = vectors, copy, owner

    def __len__(self) -> int:
        return len(self._vectors)

    def vectors(self, numbers: VectorNumbers) -> np.ndarray:
        return self._vectors[numbers]

    def _search(self, queries: np.ndarray, k: int, n_probe: int | None) -> tuple[np.ndarray, VectorNumbers]:
        if self._copy is not None and k <= MOST_ON_GPU:
            scores, numbers = self._copy.search(queries, k)
            return scores, VectorNumbers(numbers)
        return _knn(queries, self._vectors, k)


class FaissIndex(VectorIndex):
    """An index of faiss, compressed or made for speed."""

    def __init__(self, index: faiss.Index, path: Path) -> None:
        """Search what was read from `path`."""
        self.dim = index.d
        self._index, self._path = index, path
        self._mapping = Lock()

    def __len__(self) -> int:
        return self._index.ntotal

    def vectors(self, numbers: VectorNumbers) -> np.ndarray:
        cells = inverted_file(self._index)
        with faiss_damage_named(self._path):
            if cells and not isinstance(self._index, faiss.IndexRefine):
                with self._mapping:  # a map that another thread is making looks like one that is made
                    if cells.direct_map.no():
                        cells.make_direct_map()
            return self._index.reconstruct_batch(numbers)

    @property
    def keeps_lengths(self) -> bool:
        return keeps_lengths(self._index)

    def _search(
        self, queries: np.ndarray, k: int, n_probe: int | None, selector: faiss.IDSelector | None = None
    ) -> tuple[np.ndarray, VectorNumbers]:
        with faiss_damage_named(self._path):
            scores, numbers = self._index.search(queries, k, params=parameters(self._index, n_probe, selector))
            if not ((numbers >= -1) & (numbers < len(self))).all():
                raise RuntimeError("it finds vectors that are not there")
        return scores, VectorNumbers(numbers)

    def _search_within(
        self, queries: np.ndarray, k: int, within: VectorNumbers, n_probe: int | None
    ) -> tuple[np.ndarray, VectorNumbers]:
        if len(within) <= BLOCK or not takes_selector(self._index):
            return super()._search_within(queries, k, within, n_probe)
        wanted = np.zeros(len(self), dtype=bool)
        wanted[within] = True
        bitmap = np.packbits(wanted, bitorder="little")  # faiss only points to it
        make: Any = faiss.IDSelectorBitmap  # whose stubs do not know that it takes an array
        return self._search(queries, k, n_probe, make(bitmap))


def check_queries(queries: np.ndarray, dim: int) -> None:
    """Raise `PelError` unless `queries` have the shape (q, dim)."""
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise PelError(
            f"The queries have the shape {queries.shape}, the KB's vectors have {dim} dimensions: search with the "
            f"encoder that indexed the KB."
        )


def _knn(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, VectorNumbers]:
    if not k:
        return np.zeros((len(queries), 0), np.float32), VectorNumbers(np.zeros((len(queries), 0), np.int64))
    scores, numbers = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
    return scores, VectorNumbers(numbers)


def _array_of(index: faiss.IndexFlat) -> np.ndarray:
    """The vectors (n, dim) of a flat index, in its own memory."""
    return faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)


def _on_gpus(vectors: np.ndarray) -> faiss.Index:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return faiss.index_cpu_to_all_gpus(index)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let faiss use that many threads, in this thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
