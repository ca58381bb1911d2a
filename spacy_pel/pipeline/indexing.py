"""A KB as the encoder of a linker sees it: indexed by it, searched and changed with it, refused if it is another's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from thinc.api import Model

from ..checks import check_text
from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from ..models.bi_encoder import encode_entities, stream_entities, vector_size
from ..search.hybrid import HybridSearch
from ..search.search import Search, VectorSearch
from ..search.weights import NameWeights
from .arguments import entities_given
from .settings import LinkSettings


def index_kb(model: Model, kb: KnowledgeBase, fingerprint: str, *, index_type: str, progress: bool) -> None:
    """Encode all entities of `kb` and write their vectors into its folder, in place of those of that fingerprint.

    Args:
        model: The bi-encoder.
        kb: The KB.
        fingerprint: Of the bi-encoder.
        index_type: See `KnowledgeBase.index`.
        progress: Whether to show a bar.
    """
    check_text("linker.index", "index_type", index_type, 'give "auto", "flat" or what faiss\'s index_factory takes')
    kb.index(
        stream_entities(model, kb.entities(), len(kb), progress=progress),
        dim=vector_size(model),
        metric=model.attrs["settings"]["similarity"],
        fingerprint=fingerprint,
        index_type=index_type,
    )


def encoded(
    model: Model, kb: KnowledgeBase, fingerprint: str, entities: Iterable[Entity]
) -> tuple[list[Entity], np.ndarray | None, str | None]:
    """What `KnowledgeBase.add` takes: new `entities` with their vectors, if the KB has any, and the fingerprint.

    Raises:
        PelError: If they are no entities, or if the vectors of the KB are of another encoder.
    """
    named = [kb.with_type_names(entity) for entity in entities_given(entities)]
    if not kb.indexes:
        return named, None, None
    check_fingerprint(kb, fingerprint)
    return named, encode_entities(model, named), fingerprint


def search_of(kb: KnowledgeBase, fingerprint: str, weights: NameWeights | None, settings: LinkSettings) -> Search:
    """The search of `kb` by the vectors of the encoder with that fingerprint, and with `weights` by names too.

    Raises:
        PelError: If the KB has no vectors of that encoder.
    """
    check_fingerprint(kb, fingerprint)
    index = kb.entity_index(fingerprint)
    options: dict[str, Any] = {"n_probe": settings.n_probe, "threads": settings.search_threads}
    if weights is None:
        return VectorSearch(partial(index.search, **options))
    return HybridSearch(index, kb.names, weights, **options)


def check_fingerprint(kb: KnowledgeBase, fingerprint: str) -> None:
    """Check that the vectors of `kb`, if it has any, are of the encoder with that fingerprint too.

    Raises:
        PelError: If they are of other encoders only.
    """
    indexes = kb.indexes
    if indexes and fingerprint not in indexes:
        theirs = ", ".join(f"{one:.12}" for one in indexes)
        raise PelError(
            f"The KB {kb.path} was indexed with another encoder (its fingerprint is {theirs}, that of "
            f"this linker {fingerprint:.12}): run `python -m spacy pel index PIPELINE {kb.path} OUT`, or "
            "linker.index() in Python."
        )
