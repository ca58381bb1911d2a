"""Reads a KB from end to end and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from ..errors import PelError
from .index.vectors import BLOCK, sha256
from .knowledge_base import KnowledgeBase

UNIT_WITHIN = 1e-3  # an exact index; a compressed one keeps lengths only roughly
COMPRESSED_WITHIN = 0.05


def verify(kb: KnowledgeBase, on_progress: Callable[[int], object] = lambda n: None) -> list[str]:
    """What is wrong with the files of `kb`, as sentences; none if all is well.

    Every record is read and counted, the vector file hashed, every vector looked at: it must be finite and, where
    cosines are searched, of unit length (within what the index type keeps).

    on_progress: called with the number of entities after each block of records.
    """
    problems = []
    entities = kb.entities()
    n_entities = 0
    try:
        while block := len(list(islice(entities, BLOCK))):
            n_entities += block
            on_progress(block)
    except PelError as error:
        problems.append(str(error))
    if n_entities != len(kb):
        problems.append(f"{kb.path}: {n_entities:,} records can be read, meta says {len(kb):,}")
    if kb.has_vectors:
        problems += _vector_problems(kb)
    return problems


def _vector_problems(kb: KnowledgeBase) -> Iterator[str]:
    recorded = kb.meta["vectors"]
    path = kb.path / recorded["file"]
    if sha256(path) != recorded["sha256"]:
        yield f"{path}: its SHA-256 is not the one that meta recorded: the file has changed since it was written"
    within = UNIT_WITHIN if kb.meta["index_type"] == "flat" else COMPRESSED_WITHIN
    n_vectors = infinite = odd = 0
    for block in kb.vector_blocks():
        n_vectors += len(block)
        lengths = np.linalg.norm(block.astype(np.float64), axis=1)
        infinite += int((~np.isfinite(lengths)).sum())
        odd += int((np.abs(lengths[np.isfinite(lengths)] - 1) > within).sum())
    if n_vectors != len(kb):
        yield f"{kb.path}: {n_vectors:,} vectors for {len(kb):,} entities"
    if infinite:
        yield f"{kb.path}: {infinite:,} vectors are not finite"
    if odd and kb.metric == "cosine":
        yield f"{kb.path}: {odd:,} vectors are not of unit length"
