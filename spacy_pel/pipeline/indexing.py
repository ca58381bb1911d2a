"""A KB as the encoder of a linker sees it: indexed by it, searched and changed with it, refused if it is another's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from thinc.api import Model

from ..checks import check_text
from ..errors import PelError
from ..kb.entity import Entity, entities_given
from ..kb.index.compressed import check_type
from ..kb.index.indexes import NewVectors
from ..kb.index.on_disk import NewIndex
from ..kb.index.owners import Owners
from ..kb.kinds import ENTITY, NAMES
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_owners import names_and_owners
from ..kb.names.normal_form import distinct_names
from ..kb.numbering import EntityRows
from ..kb.several import counts_of, flat
from ..models.bi_encoder import score_of, vector_size
from ..models.encoding import count_vectors, encode_entities, encode_names, stream_entities, stream_names
from ..search.hybrid import HybridSearch
from ..search.scored_index import scored
from ..search.search import Search, VectorSearch
from ..search.weights import NameWeights
from .settings import LinkSettings

PLURAL = {ENTITY: "entities", NAMES: "names"}
STREAMS: dict[str, Callable] = {ENTITY: stream_entities, NAMES: stream_names}
Encode = Callable[[str, Iterable, int], Iterable[np.ndarray]]


def index_kb(
    model: Model,
    kb: KnowledgeBase,
    fingerprints: Mapping[str, str],
    index_type: str,
    progress: bool,
    encode: Encode | None = None,
) -> None:
    """Encode the entities of `kb`, or their names, and write their vectors into its folder, in place of those of these
    fingerprints.

    Args:
        model: The bi-encoder.
        kb: The KB.
        fingerprints: Of the bi-encoder, by the kind of what is encoded.
        index_type: See `NewIndex`.
        progress: Whether to show a bar.
        encode: Gives the vectors in place of this process, block by block: of a kind, of these entities or names, of
            which there are so many.
    """
    check_text("linker.index", "index_type", index_type, 'give "auto", "flat" or what faiss\'s index_factory takes')
    check_type(index_type, vector_size(model))
    metric = model.attrs["settings"]["similarity"]
    new = []
    items: Iterable
    for kind, fingerprint in fingerprints.items():
        if kind == NAMES:
            items, owners = names_and_owners(kb)
            count = owners.n_vectors
        else:
            items, count = kb.entities(), len(kb)
            owners = Owners(EntityRows(np.repeat(kb.live_rows, count_vectors(model, kb.entities(), len(kb)))))
        blocks = encode(kind, items, count) if encode else STREAMS[kind](model, items, count, progress=progress)
        new.append(NewIndex(fingerprint, blocks, vector_size(model), metric, owners, kind, index_type))
    kb.write_indexes(new)


def encoded(
    model: Model, kb: KnowledgeBase, fingerprints: Mapping[str, str], entities: Iterable[Entity]
) -> tuple[Any, ...]:
    """The arguments of `KnowledgeBase.add`: new `entities`, with the vectors that the indexes of these fingerprints, by
    kind, need.

    Raises:
        PelError: If they are no entities, or if the vectors of the KB are of another encoder.
    """
    named = [kb.with_type_names(entity) for entity in entities_given(entities)]
    if not kb.indexes:
        return (named,)
    check_fingerprints(kb, fingerprints)
    return named, *(_vectors_of(model, kind, fingerprint, named) for kind, fingerprint in fingerprints.items())


def _vectors_of(model: Model, kind: str, fingerprint: str, entities: Sequence[Entity]) -> NewVectors:
    if kind != NAMES:
        vectors = encode_entities(model, entities)
        return NewVectors(fingerprint, flat(vectors), np.repeat(np.arange(len(entities)), counts_of(vectors)).tolist())
    names = [distinct_names(entity.name, entity.aliases) for entity in entities]
    owners = [place for place, own in enumerate(names) for _ in own]
    return NewVectors(fingerprint, encode_names(model, list(chain(*names))), owners)


def search_of(
    model: Model,
    kb: KnowledgeBase,
    fingerprints: Mapping[str, str],
    weights: NameWeights | None,
    settings: LinkSettings,
    *,
    compare_names: bool | None = None,
) -> Search:
    """The search of `kb` by the vectors of these fingerprints, by their kind, and by the texts of names.

    Args:
        model: The bi-encoder, which says how the vectors of entities are scored.
        kb: The KB.
        fingerprints: By kind, of the indexes to search.
        weights: What counts beside the similarity; None: nothing but, with both kinds of vectors, the other.
        settings: How to search.
        compare_names: Whether the texts of names are compared; None: where they have a weight.

    Raises:
        PelError: If the KB has no vectors of that encoder.
    """
    check_fingerprints(kb, fingerprints)
    score = score_of(model)
    indexes = {
        kind: scored(kb.entity_index(fingerprint), score, settings.exact_up_to)
        for kind, fingerprint in fingerprints.items()
    }
    options: dict[str, Any] = {"n_probe": settings.n_probe, "threads": settings.search_threads}
    if compare_names is None:
        compare_names = weights is not None and weights.compare_texts
    if not compare_names and settings.vectors == "entity":
        return VectorSearch(partial(indexes[ENTITY].search, **options))
    return HybridSearch(indexes, kb.names if compare_names else None, weights, **options)


def check_fingerprints(kb: KnowledgeBase, fingerprints: Mapping[str, str]) -> None:
    """Check that the vectors of `kb`, if it has any, are of the encoder with these fingerprints, by kind, too.

    Raises:
        PelError: If they are of other encoders only, or of another kind.
    """
    indexes = kb.indexes
    missing = {kind: one for kind, one in fingerprints.items() if one not in indexes} if indexes else {}
    if not missing:
        return
    how = f"run `python -m spacy pel index PIPELINE {kb.path} OUT`, or linker.index() in Python."
    if len(missing) < len(fingerprints):
        kind = next(iter(missing))
        raise PelError(f'The KB {kb.path} has no vectors of this linker\'s {PLURAL[kind]} (vectors = "both"): {how}')
    theirs = ", ".join(f"{one:.12}" for one in indexes)
    raise PelError(
        f"The KB {kb.path} was indexed with another encoder (its fingerprint is {theirs}, that of this linker "
        f"{' and '.join(f'{one:.12}' for one in missing.values())}), or for another setting "
        f"of `vectors` or `score`: {how}"
    )
