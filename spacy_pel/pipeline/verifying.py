"""Reads a saved pipeline from end to end and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc

from ..errors import PelError
from ..kb.verify import verify as verify_kb
from ..models.bi_encoder import encode_entities, encode_spans
from ..models.listener import listens
from .kb_of_pipeline import LAYOUT
from .linker import PelLinker

ENCODED = 32  # entities, to see that the towers work


def has_hashes(folder: Path) -> bool:
    """Whether the component in `folder` was saved with the hashes of its files, which are checked when it is read."""
    saved = LAYOUT.read(folder)
    return saved is not None and saved.has_hashes


def verify_linker(linker: PelLinker, on_progress: Callable[[int], object] = lambda n: None) -> list[str]:
    """Check that the towers of a linker that was read give vectors, and read its KB from end to end.

    Args:
        linker: With a KB.
        on_progress: Called with the number of entities after each block of records.

    Returns:
        What is wrong, as sentences; none if all is well.
    """
    kb = linker.require_kb()
    has_vectors = set(linker.fingerprints.values()) <= set(kb.indexes)
    problems = [] if has_vectors else [f"{kb.path}: has no vectors of this pipeline's encoder"]
    entities = list(islice(kb.entities(), ENCODED))
    read = [] if listens(linker.model) else entities  # a `transformer` pipe reads whole Docs
    names = [Doc(linker.vocab, words=entity.name.split()) for entity in read if entity.name.split()]
    for encode in (
        lambda: encode_entities(linker.model, entities),
        lambda: encode_spans(linker.model, [doc[:] for doc in names]),
    ):
        try:
            encode()
        except PelError as error:
            problems.append(str(error))
    return problems + verify_kb(kb, on_progress)
