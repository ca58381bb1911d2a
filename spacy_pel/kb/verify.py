"""Reads a KB from end to end and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from ..errors import PelError
from .index.compressed import FLAT
from .index.entity_index import EntityIndex
from .index.on_disk import FILE_NAME
from .index.vectors import BLOCK
from .knowledge_base import KnowledgeBase
from .stored_files import changed

UNIT_WITHIN = 1e-3  # an exact index; a compressed one keeps lengths only roughly
COMPRESSED_WITHIN = 0.05
READINGS = 3  # of a KB that another process changes meanwhile


def verify(kb: KnowledgeBase, on_progress: Callable[[int], object] = lambda n: None) -> list[str]:
    """Read a KB from end to end: records, and of every index its files, owners and vectors.

    The records must be as spacy-pel has written them, by their hashes, if they have any (`kb.records.has_hashes`).
    While the file of the records is read, nobody can change it. Where something is wrong, and the KB has changed since,
    it is read again.

    A vector must be finite and, where cosines are searched and the index type keeps lengths, of unit length. Its owner
    must be an entity of the KB.

    Args:
        kb: The KB.
        on_progress: Called with the number of entities after each block of records.

    Returns:
        What is wrong, as sentences; none if all is well.

    Raises:
        PelError: Another process has numbered the entities anew meanwhile, as `KnowledgeBase.compact` does.
    """
    problems: list[str] = []
    for _ in range(READINGS):
        moment, problems = kb.moment, _problems(kb, on_progress)
        if not problems or kb.moment is moment:
            return problems
    return [f"{kb.path}: changed each time that it was read, so that nothing else of this is sure", *problems]


def _problems(kb: KnowledgeBase, on_progress: Callable[[int], object]) -> list[str]:
    problems = kb.records.damage()
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
    for fingerprint, index in kb.indexes.items():
        where = f"{kb.path}" if len(kb.indexes) == 1 else f"{kb.path}, index {fingerprint:.12}"
        problems += [*_file_problems(kb, index), *_vector_problems(kb, index, where)]
    return problems


def _file_problems(kb: KnowledgeBase, index: EntityIndex) -> Iterator[str]:
    for file in index.record["files"].values():
        if problem := changed(kb.path, file, FILE_NAME):
            yield problem


def _vector_problems(kb: KnowledgeBase, index: EntityIndex, where: str) -> Iterator[str]:
    owners = index.owners()
    if (np.diff(owners.rows) < 0).any():
        yield f"{where}: the owners of the vectors are not in the order of the rows"
    if foreign := int((~np.isin(owners.rows, kb.live_rows)).sum()):
        yield f"{where}: {foreign:,} vectors belong to no entity"
    within = UNIT_WITHIN if index.index_type == FLAT else COMPRESSED_WITHIN
    n_vectors = infinite = odd = 0
    for block in index.blocks():
        n_vectors += len(block)
        lengths = np.linalg.norm(block.astype(np.float64), axis=1)
        infinite += int((~np.isfinite(lengths)).sum())
        odd += int((np.abs(lengths[np.isfinite(lengths)] - 1) > within).sum())
    if n_vectors != owners.n_vectors:
        yield f"{where}: {n_vectors:,} vectors where the owners say {owners.n_vectors:,}"
    if infinite:
        yield f"{where}: {infinite:,} vectors are not finite"
    if odd and index.metric == "cosine" and index.keeps_lengths:
        yield f"{where}: {odd:,} vectors are not of unit length"
