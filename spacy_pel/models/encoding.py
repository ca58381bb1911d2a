"""Spans, entities and names in, vectors out; and what two of them score.

The rest of the package calls `encode_spans` and `encode_entities`. Token rows are for training only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from spacy.tokens import Span
from spacy.util import minibatch
from thinc.api import Model, to_numpy
from tqdm import tqdm

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.several import Several, Vectors, flat
from .bi_encoder import row_builder, score_of
from .encoder import tower_module
from .inputs import ENTITIES_AT_ONCE
from .scoring.bags import given
from .token_rows import Readable, TokenRows

UNREADABLE = -1


def similarities(model: Model, mentions: Vectors, entities: Vectors) -> np.ndarray:
    """Score each of n encoded mentions with the entity that lies at its place: (n,) float32."""
    with torch.no_grad():
        return score_of(model).own_pairs(given(mentions), given(entities))[:, 0].cpu().numpy()


def all_similarities(model: Model, mentions: Vectors, entities: Vectors) -> np.ndarray:
    """Score each of m encoded mentions with each of n encoded entities: (m, n) float32."""
    with torch.no_grad():
        return score_of(model).all_pairs(given(mentions), given(entities)).cpu().numpy()


def encode_spans(model: Model, spans: Sequence[Span]) -> tuple[Vectors, np.ndarray]:
    """Encode the distinct ones of n mentions.

    Two spans are the same if their token rows and their texts are. The rows alone do not tell: one that was cut, or
    has a piece that the encoder does not know, can be that of several texts.

    Returns:
        The vectors (d, hidden) float32 of the distinct mentions, or `Several` each, as a search asks by them (see
        `Score.queries`), and for every span (n,) its place among them, or `UNREADABLE` for a span without a word piece.
    """
    rows, row_of = row_builder(model).mentions(spans).unique()
    lengths = rows.lengths
    readable = lengths.nonzero()[0]
    encoded = encode_mention_rows(model, rows.take(readable))
    numbers: dict[tuple[int, str], int] = {}
    places = np.full(len(spans), UNREADABLE)
    for i in lengths[row_of].nonzero()[0].tolist():
        places[i] = numbers.setdefault((row_of[i], spans[i].text), len(numbers))
    distinct = encoded[np.searchsorted(readable, [row for row, _ in numbers])]
    return score_of(model).queries(distinct), places


def encode_entities(model: Model, entities: Iterable[Entity]) -> Vectors:
    """Encode the records of n entities to vectors (n, hidden) float32, or to `Several` each."""
    return encode_entity_rows(model, row_builder(model).entities(entities))


def vectors_per_entity(model: Model, rows: TokenRows) -> np.ndarray:
    """Return how many vectors (n,) each of n entity rows is encoded to."""
    counts = tower_module(model.get_ref("entity_tower")).pooling.counts(rows.lengths)
    return np.ones(len(rows), dtype=np.int64) if counts is None else counts


def has_several_vectors(model: Model) -> bool:
    """Say whether an entity is encoded to `Several` vectors."""
    return tower_module(model.get_ref("entity_tower")).pooling.counts(np.zeros(0, dtype=np.int64)) is not None


def count_vectors(model: Model, entities: Iterable[Entity], total: int) -> np.ndarray:
    """Return how many vectors (total,) each of `total` entities is encoded to, without encoding any."""
    if not has_several_vectors(model):
        return np.ones(total, dtype=np.int64)
    blocks = (row_builder(model).entities(block) for block in minibatch(entities, ENTITIES_AT_ONCE))
    return np.concatenate([vectors_per_entity(model, rows) for rows in blocks])


def encode_names(model: Model, names: Sequence[str]) -> np.ndarray:
    """Encode n names, each as a mention that stands alone, to vectors (n, hidden) float32.

    Raises:
        PelError: The score compares a mention by several vectors.
    """
    check_reads_names(model)
    return flat(encode_mention_rows(model, row_builder(model).names(names)))


def check_reads_names(model: Model) -> None:
    """Check that names can be searched by their vectors.

    Raises:
        PelError: The score compares a mention by several vectors, or names cannot be read as mentions.
    """
    if not score_of(model).one_vector:
        raise PelError(
            f"Names of a KB have one vector each, and {score_of(model).registered} compares a mention by several: set "
            '[components.pel_linker] vectors = "entity".'
        )
    model.attrs["row_settings"].check_reads_names()


def stream_entities(model: Model, entities: Iterable[Entity], total: int, *, progress: bool) -> Iterator[np.ndarray]:
    """Encode many entities block by block.

    Args:
        model: A bi-encoder with weights.
        entities: The records.
        total: Their number.
        progress: Show a progress bar.

    Yields:
        The vectors of a block, (v, hidden) float32.
    """
    yield from _stream(
        lambda block: flat(encode_entities(model, block)), entities, total, "Encoding entities", "ent", progress
    )


def stream_names(model: Model, names: Iterable[str], total: int, *, progress: bool) -> Iterator[np.ndarray]:
    """`stream_entities` for names."""
    yield from _stream(partial(encode_names, model), names, total, "Encoding names", "name", progress)


def _stream(
    encode: Callable[[list], np.ndarray], items: Iterable, total: int, desc: str, unit: str, progress: bool
) -> Iterator[np.ndarray]:
    with tqdm(total=total, desc=desc, unit=unit, unit_scale=True, disable=not progress) as bar:
        for block in minibatch(items, ENTITIES_AT_ONCE):
            yield encode(block)
            bar.update(len(block))


def encode_mention_rows(model: Model, rows: Readable) -> Vectors:
    """Encode n mentions to vectors (n, hidden) float32, or to `Several` each.

    Raises:
        PelError: A vector is not finite.
    """
    return _encode(model, "mention_tower", rows)


def encode_entity_rows(model: Model, rows: TokenRows) -> Vectors:
    """Encode n entity rows to vectors (n, hidden) float32, or to `Several` each.

    Raises:
        PelError: A vector is not finite.
    """
    return _encode(model, "entity_tower", rows)


def in_numpy(vectors: Any) -> Vectors:
    """Return what a tower has given, in numpy."""
    own = to_numpy(flat(vectors))
    return Several(own, vectors.counts) if isinstance(vectors, Several) else own


def _encode(model: Model, tower: str, rows: Readable) -> Vectors:
    vectors = in_numpy(model.get_ref(tower).predict(rows))
    if not np.isfinite(flat(vectors)).all():
        raise PelError(
            f"The {tower.replace('_', ' ')} of pel_linker gives vectors that are not finite: its weights are broken. "
            "Copy the pipeline again, or train it again with a lower learn_rate."
        )
    return vectors
