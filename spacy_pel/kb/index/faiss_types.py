"""Which indexes of faiss a KB may have: those that are searched in bounded time, whatever their file holds.

faiss reads files of many more types. Of some, a crafted file makes the search run for ever, or read what is not its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any  # faiss's type stubs do not know all attributes

import faiss
import numpy as np

# Of each type, as faiss calls it: how its files begin. Flat, inverted files, product and scalar quantisers, HNSW.
TYPES = {
    "IndexFlat": (b"IxFI", b"IxF2", b"IxFl"),
    "IndexFlatIP": (b"IxFI",),
    "IndexFlatL2": (b"IxF2",),
    "IndexScalarQuantizer": (b"IxSQ",),
    "IndexPQ": (b"IxPq",),
    "IndexPQFastScan": (b"IPfs",),
    "IndexIVFFlat": (b"IwFl",),
    "IndexIVFPQ": (b"IwPQ",),
    "IndexIVFPQFastScan": (b"IwPf",),
    "IndexIVFScalarQuantizer": (b"IwSq",),
    "IndexHNSWFlat": (b"IHNf", b"IHfP"),
    "IndexHNSWPQ": (b"IHNp", b"IHpP"),
    "IndexHNSWSQ": (b"IHNs", b"IHsP"),
    "IndexRefine": (b"IxRF",),
    "IndexRefineFlat": (b"IxRF",),
    "IndexPreTransform": (b"IxPT",),
}
TRANSFORMS = ("LinearTransform", "OPQMatrix", "PCAMatrix", "RandomRotationMatrix", "NormalizationTransform")
INNER = ("base_index", "refine_index", "index", "quantizer", "storage")  # where an index may have another
READ_FROM = tuple(name for name in INNER if name != "base_index")  # of which what is kept for vectors may be read again
COMPARING = ("refine_index", "storage")  # what is asked for single products
MOST_VISITED = 1 << 16
LAYERED = 3  # sums of links that the layers of a graph have at least, unless faiss ends the process as it adds vectors
MOST_DEEPER = 1_000  # times k candidates that are scored again


def check_head(path: Path) -> None:
    """Raise `ValueError` unless the file at `path` begins as one of an index that a KB may have."""
    with path.open("rb") as file:
        head = file.read(4)
    if not any(head in heads for heads in TYPES.values()):
        raise ValueError(f"it begins with {head!r}, and is no index of faiss that spacy-pel writes")


def check_types(index: faiss.Index) -> None:
    """Raise `ValueError` unless `index`, with all that it is made of, is of types that a KB may have."""
    for part, _, _ in _parts(index):
        if type(part).__name__ not in TYPES:
            raise ValueError(f"{type(part).__name__} is no kind of index that a KB is searched with")
        for name in COMPARING:
            _check_comparing(getattr(part, name, None))
        if isinstance(part, faiss.IndexHNSW) and part.hnsw.cum_nneighbor_per_level.size() < LAYERED:
            raise ValueError("its graph needs at least 2 links for each vector")
    for part, _, _ in _parts(index, READ_FROM):
        if isinstance(part, faiss.IndexIVFPQFastScan):
            raise ValueError(
                f"its {type(part).__name__} keeps no vectors that can be read again; add ,Refine(SQfp16) to the type"
            )
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ValueError(f"it is a faiss {type(index).__name__} of distances, not of inner products")


def check_index(index: faiss.Index) -> None:
    """`check_types`, and raise `ValueError` unless what an index that was read is made of fits together."""
    check_types(index)
    for part, dim, count in _parts(index):
        name = type(part).__name__
        if part.d != dim or count not in (None, part.ntotal):
            raise ValueError(f"its {name} has {part.ntotal} vectors of {part.d} dimensions instead of {count} of {dim}")
        if isinstance(part, faiss.IndexIVF) and not 0 < part.nprobe <= part.nlist:
            raise ValueError(f"it visits {part.nprobe} of {part.nlist} cells")
        if isinstance(part, faiss.IndexRefine) and not 1 <= part.k_factor <= MOST_DEEPER:
            raise ValueError(f"it scores {part.k_factor} times as many candidates as asked for")
        if isinstance(part, faiss.IndexHNSW):
            _check_graph(part)


def keeps_lengths(index: faiss.Index) -> bool:
    """Whether vectors that are read again from `index` are about as long as they were: not where it drops dimensions,
    or has less than a byte for each."""
    parts = [part for part, _, _ in _parts(index, READ_FROM)]
    return all(part.d == index.d and getattr(part, "code_size", part.d) >= part.d for part in parts)


def _parts(index: faiss.Index, names: Sequence[str] = INNER) -> Iterator[tuple[Any, int, int | None]]:
    """`index` and what it has under `names`, each with the dimensions and the number of vectors that it should have."""
    waiting: list[tuple[Any, int, int | None]] = [(index, index.d, None)]
    while waiting:
        part, dim, count = waiting.pop()
        typed: Any = faiss.downcast_index(part)
        yield typed, dim, count
        dim = typed.d
        if isinstance(typed, faiss.IndexPreTransform):
            dim = _check_transforms(typed)
        for name in names:
            inner = getattr(typed, name, None)
            if inner is not None:
                waiting.append((inner, dim, typed.nlist if name == "quantizer" else typed.ntotal))


def _check_comparing(index: faiss.Index | None) -> None:
    """Raise `ValueError` where faiss, asked by `index` for single products, would end the process."""
    typed: Any = index and faiss.downcast_index(index)
    while isinstance(typed, faiss.IndexPreTransform):
        typed = faiss.downcast_index(typed.index)
    if isinstance(typed, faiss.IndexIVF | faiss.IndexFastScan | faiss.IndexRefine):
        raise ValueError(f"its {type(typed).__name__} cannot score candidates again")


def _check_transforms(index: Any) -> int:
    """The dimensions of what the transforms before an index give."""
    dim = index.d
    for number in range(index.chain.size()):
        transform = faiss.downcast_VectorTransform(index.chain.at(number))
        if type(transform).__name__ not in TRANSFORMS or transform.d_in != dim:
            raise ValueError(f"its vectors go through a {type(transform).__name__} from {transform.d_in} dimensions")
        dim = transform.d_out
    return dim


def _check_graph(index: Any) -> None:
    graph = index.hnsw
    links = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size())
    offsets = faiss.vector_to_array(graph.offsets).astype(np.int64)
    levels = faiss.vector_to_array(graph.levels)
    if not len(offsets) == len(levels) + 1 == index.ntotal + 1 or offsets[-1] != len(links):
        raise ValueError("its graph has the links of another number of vectors")
    if (np.diff(offsets) < 0).any() or (len(links) and not -1 <= links.min() <= links.max() < index.ntotal):
        raise ValueError("its graph links to vectors that are not there")
    if not -1 <= graph.entry_point < index.ntotal:
        raise ValueError("its graph begins at a vector that is not there")
    if not 0 < graph.efSearch <= MOST_VISITED:
        raise ValueError(f"its graph looks at {graph.efSearch} vectors")
