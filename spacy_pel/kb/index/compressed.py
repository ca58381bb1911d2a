"""Compressed indexes of faiss: their type for so many vectors, how they are built, written, read and asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from tqdm import tqdm

from ...errors import PelError, first_line
from .faiss_types import check_head, check_index, check_types

ADDED_AT_ONCE = 50_000  # vectors
EXACT_UP_TO = 200_000  # vectors for which `auto` stays exact
TRAINED_ON, TRAINED_ON_PER_CELL, SEED = 100_000, 40, 0
ALL_UP_TO = 3_000_000  # vectors for which `auto` reads all codes, and keeps half precision beside them
VISITED = 1_000_000  # vectors, about, whose codes a search reads in cells, unless the config says how many to visit
DEEPER = 16  # times k candidates are scored again where the index can
FLAT = "flat"
UNREADABLE = RuntimeError, MemoryError, ValueError  # what is raised of a file that is no index for a KB


def auto_type(count: int, dim: int) -> str:
    """The index type for `count` vectors: exact up to `EXACT_UP_TO`, from there on 4-bit product codes (four dimensions
    each) whose best are scored again.

    Up to `ALL_UP_TO` all codes are read, as one cell, and 16 bits a dimension are kept for the last choice: of 2.4
    million, cells that held a million of the codes missed 2 % of the best for half of the time. Above, an inverted file
    has cells of which a search visits what holds `VISITED`, and 8 bits are kept.
    """
    if count <= EXACT_UP_TO:
        return FLAT
    codes = f"PQ{dim // 4}x4fs"
    if count <= ALL_UP_TO:
        return f"IVF1,{codes},Refine(SQfp16)"
    return f"IVF{2 ** round(np.log2(2 * np.sqrt(count)))},{codes},Refine(SQ8)"


def _read(path: Path) -> faiss.Index:
    """Map an index; read one whose path is not UTF-8, which faiss cannot take."""
    if _is_utf8(path):
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    return faiss.deserialize_index(np.fromfile(path, dtype=np.uint8))


def read_checked(path: Path) -> faiss.Index:
    """Map the index at `path`, and raise one of `UNREADABLE` unless a KB can be searched with it."""
    check_head(path)
    index = _read(path)
    check_index(index)
    return index


def write_index_file(index: faiss.Index, path: Path) -> None:
    """Write an index to the file at `path`, whose name may not be UTF-8."""
    if _is_utf8(path):
        faiss.write_index(index, str(path))
    else:
        faiss.serialize_index(index).tofile(path)


def _is_utf8(path: Path) -> bool:
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


@contextmanager
def faiss_damage_named(path: Path) -> Iterator[None]:
    """Turn what faiss raises in the block, since the file at `path` makes no sense, into a `PelError`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise PelError(
            f"{path}: is damaged ({first_line(error)}); check the KB with `spacy pel kb verify`, or index it again."
        ) from error


def check_type(index_type: str, dim: int) -> None:
    """Check, before there are vectors, that they can be in an index of that type, as `NewIndex` has it.

    Raises:
        PelError: Not of so many dimensions, or not at all.
    """
    if index_type in (FLAT, "auto"):
        return
    try:
        _empty(index_type, dim)
    except (RuntimeError, ValueError) as error:
        raise refused_type(index_type, f"built for vectors of {dim} dimensions: {first_line(error)}") from error


def _empty(index_type: str, dim: int) -> faiss.Index:
    index = faiss.index_factory(dim, index_type, faiss.METRIC_INNER_PRODUCT)
    check_types(index)
    return index


def compressed(vectors: np.ndarray, index_type: str) -> faiss.Index:
    """The `vectors` (n, dim) in an index of that type, trained on a seeded sample of them."""
    try:
        index = _empty(index_type, vectors.shape[1])
        cells = inverted_file(index)
        if cells and not getattr(cells, "by_residual", False):
            _divide_by_distance(cells)
        if not index.is_trained:
            wanted = max(TRAINED_ON, TRAINED_ON_PER_CELL * cells.nlist if cells else 0)
            sample = np.random.default_rng(SEED).permutation(len(vectors))[:wanted]
            index.train(vectors[np.sort(sample)])
    except (RuntimeError, ValueError) as error:
        raise refused_type(index_type, f"built for these vectors: {first_line(error)}") from error
    for start in tqdm(
        range(0, len(vectors), ADDED_AT_ONCE), desc=f"Building {index_type}", disable=len(vectors) <= ADDED_AT_ONCE
    ):
        index.add(vectors[start : start + ADDED_AT_ONCE])
    if cells:
        cells.nprobe = ceil(min(1.0, VISITED / len(vectors)) * cells.nlist)
    if isinstance(index, faiss.IndexRefine):
        index.k_factor = DEEPER
    return index


def refused_type(index_type: str, why: str) -> PelError:
    """The error of an index type. why: what it cannot be, and the reason."""
    return PelError(f'--index-type "{index_type}" cannot be {why}; index again with another (`spacy pel index`).')


def _divide_by_distance(cells: faiss.IndexIVF) -> None:
    """Put every vector into the cell whose centre is nearest, and visit the cells in that order.

    By inner products, as faiss would for this metric, the spread of a cell counts for nothing. Mentions lie far from
    all entities: to find the best of 72,793 for 99 % of BC5CDR's, cells (of 1,024) had to be visited that way until
    47 % of the vectors were seen, and this way 21 %.
    """
    centres = faiss.IndexFlatL2(cells.d)
    centres.this.disown()  # type: ignore[attr-defined]  # the inverted file owns it
    cells.quantizer, cells.own_fields, cells.cp.spherical = centres, True, False


def inverted_file(index: faiss.Index) -> faiss.IndexIVF | None:
    """The inverted file in `index`, if there is one."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexIVF):
        return index
    inner = getattr(index, "base_index", None) or getattr(index, "index", None)
    return inverted_file(inner) if inner is not None else None


def takes_selector(index: faiss.Index) -> bool:
    """Whether faiss searches `index` among some of its vectors only."""
    index = faiss.downcast_index(index)
    inner = getattr(index, "base_index", None) or getattr(index, "index", None)
    return takes_selector(inner) if inner is not None else not isinstance(index, faiss.IndexPQ | faiss.IndexPQFastScan)


def parameters(index: faiss.Index, n_probe: int | None, selector: faiss.IDSelector | None) -> Any:
    """faiss's `SearchParameters` for `index`: that many probes, or those it was built with, in what `selector` lets
    through; None where there is nothing to say."""
    make: Any = faiss  # its type stubs do not know all of these
    index = faiss.downcast_index(index)
    chosen = {} if selector is None else {"sel": selector}
    if isinstance(index, faiss.IndexRefine):
        inner = parameters(index.base_index, n_probe, selector)
        return make.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexPreTransform):
        return make.SearchParametersPreTransform(index_params=parameters(index.index, n_probe, selector))
    if isinstance(index, faiss.IndexIVF):
        return make.SearchParametersIVF(nprobe=n_probe or index.nprobe, **chosen)
    if isinstance(index, faiss.IndexHNSW):
        return make.SearchParametersHNSW(efSearch=index.hnsw.efSearch, **chosen)
    return make.SearchParameters(**chosen) if chosen else None
