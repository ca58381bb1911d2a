"""Search over entity vectors, exact or compressed, in memory or memory-mapped: the only file that imports faiss."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

try:
    import faiss
except ImportError as error:
    raise ImportError('faiss is missing: python -m pip install "spacy-pel[cpu]", or "spacy-pel[gpu]"') from error

from tqdm import tqdm

from ...errors import PelError
from ...files.folders import sync

# From this many queries on, a search is one matrix product (BLAS): at 384 dimensions about 13 times faster.
faiss.cvar.distance_compute_blas_threshold = 20

SAMPLES, SAMPLE_BYTES = 64, 4096
BLOCK = 50_000  # rows whose vectors are taken together where only some rows are searched
MOST_PASSED_OVER = 1_000  # removed rows for which a search just goes so much deeper
EXACT_UP_TO = 200_000  # entities for which `auto` stays exact
TRAINED_ON, TRAINED_ON_PER_CELL, SEED = 100_000, 40, 0
PROBED = 3 / 8  # of the cells are visited, unless the config says otherwise
MOST_ON_GPU = 2048  # candidates of a mention, a limit of faiss
DEEPER = 8  # times k candidates are scored again where the index can
FLAT = "flat"

# The threads of OpenMP do not survive a fork: a child that waits for them hangs.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(faiss.omp_set_num_threads, 1))


class VectorIndex:
    """Vectors by row, searched by inner product. A mapped index is never added to: faiss would abort the process."""

    n_probe: int | None = None  # cells of an inverted file that a search visits; None: as the index was built
    threads: int | None = None  # of a search; None: all that faiss takes

    def __init__(self, index: faiss.Index, copy: faiss.Index | None = None) -> None:
        """copy: the same vectors where a search is faster, for searches that no rows restrict."""
        self._index = index
        self._copy = copy

    @classmethod
    def build(cls, vectors: np.ndarray) -> VectorIndex:
        """An index in memory over `vectors` (n, dim), of which it keeps a float32 copy."""
        return cls.stream([vectors], vectors.shape[1])

    @classmethod
    def stream(cls, blocks: Iterable[np.ndarray], dim: int, *, gpus: bool = False) -> VectorIndex:
        """An index in memory over `blocks` of vectors (n, dim), one after the other. gpus: with a copy on every GPU,
        if faiss was built for them."""
        index = faiss.IndexFlatIP(dim)
        for block in blocks:
            index.add(np.ascontiguousarray(block, dtype=np.float32))
        return cls(index, faiss.index_cpu_to_all_gpus(index) if gpus and faiss.get_num_gpus() else None)

    @classmethod
    def open(cls, path: Path) -> VectorIndex:
        """Map the file at `path`; nothing is read before the first search.

        RAISES: `PelError` where the file is no index of inner products. It has to be whole: check its size before.
        """
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise PelError(f"{path}: faiss cannot read this file as vectors") from error
        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise PelError(f"{path}: holds a faiss {type(index).__name__} of distances, not of inner products")
        return cls(index)

    @staticmethod
    def write(path: Path, blocks: Iterable[np.ndarray], *, count: int, dim: int, index_type: str = FLAT) -> str:
        """Write `count` vectors, in `blocks` (n, dim) of row order, into a new file at `path`; return its SHA-256.

        The file is complete and on the disk before it gets its name. Memory: one block, and a compressed index. Disk,
        while a compressed one is built: also the vectors as they are.

        index_type (str): "flat", or what faiss's `index_factory` takes.
        RAISES: `PelError` for a vector that is not finite, a block of another shape, too few or too many vectors, and
            for an index type that faiss refuses.
        """
        flat, part = path.with_name(f"{path.name}.flat.part"), path.with_name(f"{path.name}.part")
        try:
            with flat.open("wb") as file:
                for chunk in _serialised(blocks, count, dim):
                    file.write(chunk)
            if index_type == FLAT:
                flat.rename(part)
            else:
                faiss.write_index(_compressed(VectorIndex.open(flat), index_type), str(part))
                flat.unlink()
            sync(part)
            part.rename(path)
            sync(path.parent)
        except BaseException:
            flat.unlink(missing_ok=True)
            part.unlink(missing_ok=True)
            raise
        return sha256(path)

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

    def search(
        self, queries: np.ndarray, k: int, *, within: np.ndarray | None = None, without: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `k` rows with the largest inner product for each of `queries` (q, dim).

        within, without: rows, ascending, to search in alone and to leave out; those that the index lacks do no harm.

        RETURNS: scores (q, k) float32 and rows (q, k) int64, best first, of equal scores the lower row first. Where
            there are fewer than `k` rows, the rest is row -1 with score -inf.
        RAISES: `PelError` for queries of another dimension.
        """
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise PelError(
                f"The queries have the shape {queries.shape}, the KB's vectors have {self.dim} dimensions: "
                f"search with the encoder that indexed the KB."
            )
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        without = np.empty(0, dtype=np.int64) if without is None else without[without < len(self)]
        if within is not None:
            rows = np.setdiff1d(within[within < len(self)], without, assume_unique=True)
            return self._search_rows(queries, k, rows)
        if len(without) > MOST_PASSED_OVER:
            selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(without))
            return best(*self._search(queries, k, selector), k)
        scores, found = self._search(queries, k + len(without))
        found[np.isin(found, without)] = -1
        return best(scores, found, k)

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The vectors (n, dim) float32 of `rows` (n,), as exactly as the index keeps them."""
        if isinstance(self._index, faiss.IndexFlat):
            flat = faiss.rev_swig_ptr(self._index.get_xb(), len(self) * self.dim).reshape(len(self), self.dim)
            return flat[rows]
        cells = _inverted_file(self._index)
        if cells and not isinstance(self._index, faiss.IndexRefine) and cells.direct_map.no():
            cells.make_direct_map()
        return self._index.reconstruct_batch(rows)

    def _search_rows(self, queries: np.ndarray, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Search in `rows` alone: all of them, a block at a time, unless the index is faster and they are many."""
        if not isinstance(self._index, faiss.IndexFlat) and len(rows) > BLOCK:
            selector = faiss.IDSelectorBatch(rows)
            return best(*self._search(queries, k, selector), k)
        scores, found = [], []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            with _threads(self.threads):
                products, places = faiss.knn(
                    queries, self.vectors(block), min(k, len(block)), metric=faiss.METRIC_INNER_PRODUCT
                )
            scores.append(products)
            found.append(block[places])
        if not found:
            return np.full((len(queries), k), -np.inf, dtype=np.float32), np.full((len(queries), k), -1)
        return best(np.hstack(scores), np.hstack(found), k)

    def _search(
        self, queries: np.ndarray, k: int, selector: faiss.IDSelector | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._copy is not None and selector is None and k <= MOST_ON_GPU:
            return self._copy.search(queries, k)
        with _threads(self.threads):
            return self._index.search(queries, k, params=_parameters(self._index, self.n_probe, selector))


def best(scores: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` best columns of `scores` (q, n) with their `rows` (q, n), best first, of equal scores the lower row
    first; row -1 stands for none, and fills up where n < k."""
    scores = np.where(rows < 0, np.float32(-np.inf), scores)
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    scores, rows = np.take_along_axis(scores, order, axis=-1), np.take_along_axis(rows, order, axis=-1)
    missing = ((0, 0), (0, k - rows.shape[1]))
    return np.pad(scores, missing, constant_values=-np.inf), np.pad(rows, missing, constant_values=-1)


def auto_type(count: int, dim: int) -> str:
    """The index type for `count` vectors: exact up to `EXACT_UP_TO`, from there on an inverted file of 4-bit product
    codes (four dimensions each) whose best are scored again with 8 bits a dimension."""
    if count <= EXACT_UP_TO:
        return FLAT
    cells = 2 ** round(np.log2(np.sqrt(count)))
    return f"IVF{cells},PQ{dim // 4}x4fs,Refine(SQ8)"


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _compressed(flat: VectorIndex, index_type: str) -> faiss.Index:
    """The vectors of `flat` in an index of that type, trained on a seeded sample of them."""
    try:
        index = faiss.index_factory(flat.dim, index_type, faiss.METRIC_INNER_PRODUCT)
        cells = _inverted_file(index)
        if cells and not getattr(cells, "by_residual", False):
            _divide_by_distance(cells)
        if not index.is_trained:
            wanted = max(TRAINED_ON, TRAINED_ON_PER_CELL * cells.nlist if cells else 0)
            rows = np.random.default_rng(SEED).permutation(len(flat))[:wanted]
            index.train(flat.vectors(np.sort(rows)))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise PelError(f'--index-type "{index_type}" cannot be built for these vectors: {reason}') from error
    for start in tqdm(range(0, len(flat), BLOCK), desc=f"Building {index_type}", disable=len(flat) <= BLOCK):
        index.add(flat.vectors(np.arange(start, min(start + BLOCK, len(flat)))))
    if cells:
        cells.nprobe = max(1, round(PROBED * cells.nlist))
    if isinstance(index, faiss.IndexRefine):
        index.k_factor = DEEPER
    return index


def _divide_by_distance(cells: faiss.IndexIVF) -> None:
    """Put every vector into the cell whose centre is nearest, and visit the cells in that order.

    By inner products, as faiss would for this metric, the spread of a cell counts for nothing. Mentions lie far from
    all entities: to find the best of 72,793 for 99 % of BC5CDR's, cells (of 1,024) had to be visited that way until
    47 % of the vectors were seen, and this way 21 %.
    """
    centres = faiss.IndexFlatL2(cells.d)
    centres.this.disown()  # type: ignore[attr-defined]  # the inverted file owns it
    cells.quantizer, cells.own_fields, cells.cp.spherical = centres, True, False


def _inverted_file(index: faiss.Index) -> faiss.IndexIVF | None:
    """The inverted file in `index`, if there is one."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIVF):
        return index
    inner = getattr(index, "base_index", None) or getattr(index, "index", None)
    return _inverted_file(inner) if inner is not None else None


def _parameters(index: faiss.Index, n_probe: int | None, selector: faiss.IDSelector | None) -> Any:
    """faiss's `SearchParameters` for `index`: that many probes, or those it was built with, in what `selector` lets
    through; None where there is nothing to say."""
    make: Any = faiss  # its type stubs do not know all of these
    index = faiss.downcast_index(index)
    chosen = {} if selector is None else {"sel": selector}
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(index.base_index, n_probe, selector)
        return make.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexPreTransform):
        return make.SearchParametersPreTransform(index_params=_parameters(index.index, n_probe, selector))
    if isinstance(index, faiss.IndexIVF):
        return make.SearchParametersIVF(nprobe=n_probe or index.nprobe, **chosen)
    if isinstance(index, faiss.IndexHNSW):
        return make.SearchParametersHNSW(efSearch=index.hnsw.efSearch, **chosen)
    return make.SearchParameters(**chosen) if chosen else None


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let faiss use that many threads, in this thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _serialised(blocks: Iterable[np.ndarray], count: int, dim: int) -> Iterable[bytes]:
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
        yield np.ascontiguousarray(block, dtype="<f4").tobytes()
    if written != count:
        raise PelError(
            f"Got {'more' if written > count else written} vectors for {count} entities; give one vector each."
        )


def _header(count: int, dim: int) -> bytes:
    inner_product, trained, unused = 0, True, 1 << 20
    return struct.pack("<4siqqq?iQ", b"IxFI", dim, count, unused, unused, trained, inner_product, count * dim)
