"""Reads a saved pipeline from end to end and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.verify import verify as verify_kb
from ..models.cross_encoder import score_pairs
from ..models.encoding import encode_entities, encode_spans
from ..models.listener import listens
from .kb_of_pipeline import LAYOUT
from .linker import PelLinker
from .ranker import PelRanker

ENCODED = 32  # entities, to see that the towers work
SCORED = 4  # entities, each with the names of all


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
    problems += _complaint(lambda: encode_entities(linker.model, entities))
    if not listens(linker.model):  # a `transformer` pipe reads whole Docs
        problems += _complaint(lambda: encode_spans(linker.model, _named(entities, linker.vocab)))
    return problems + verify_kb(kb, on_progress)


def verify_ranker(ranker: PelRanker) -> list[str]:
    """Check that a ranker that was read gives scores.

    Returns:
        What is wrong, as sentences; none if all is well.
    """
    entities = list(islice(ranker.require_linker().require_kb().entities(), SCORED))
    spans = _named(entities, ranker.vocab)
    return _complaint(lambda: score_pairs(ranker.model, spans, [entities] * len(spans)))


def _named(entities: Iterable[Entity], vocab: Vocab) -> list[Span]:
    """The names of `entities`, as mentions."""
    return [Doc(vocab, words=entity.name.split())[:] for entity in entities if entity.name.split()]


def _complaint(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except PelError as error:
        return [str(error)]
    return []
