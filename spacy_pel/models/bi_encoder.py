"""`spacy_pel.BiEncoder.v1`: a mention tower and an entity tower as one thinc model; spans and entities in, vectors out.

The rest of the package calls `encode_spans` and `encode_entities`. Token rows are for training only.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from spacy.language import Language
from spacy.tokens import Span
from spacy.util import minibatch
from thinc.api import Model, to_numpy
from thinc.types import Floats2d
from tqdm import tqdm

from ..checks import check_choice, check_count, check_flag, check_number, check_text, refused
from ..errors import PelError
from ..kb.entity import Entity
from ..kb.several import Several, Vectors, flat
from .encoder import Tower, make_tower, set_transformer, tower_module
from .encoder_loader import PretrainedEncoder, check_fits
from .inputs import ENTITIES_AT_ONCE, LENT, MENTIONS, SECTION, SHORTEST_MENTION, RowBuilder, RowSettings
from .lent_width import width_of_states
from .listener import connect, listens, make_listening_tower, set_projection
from .pooling import POOLINGS, Pooling
from .precision import check_precision
from .scoring.bags import given
from .scoring.dual import SIMILARITIES, Dual
from .scoring.score import Score
from .several_pooling import Codes
from .token_rows import Readable, TokenRows

UNREADABLE = -1


def make_bi_encoder(
    mention_length: int = 128,
    entity_length: int = 128,
    similarity: str = "cosine",
    shared_towers: bool = False,
    entity_template: str = "biomedical",
    aliases: str = "fallback",
    precision: str = "auto",
    context: int | None = None,
    pooling: str = "mean",
    mentions: str = "windows",
    score: Any = None,
) -> Model:
    """Build a bi-encoder without weights. An `encoder_loader` gives it those, or `spacy_pel.models.storage.load`.

    Args:
        mention_length: The longest mention row, in word pieces, markers included; of documents, the longest window.
        entity_length: The longest entity row, in word pieces.
        similarity: "cosine" (vectors of unit length; for the proxy-based loss) or "dot" (for cross-entropy).
        shared_towers: One transformer for mentions and entities instead of two.
        entity_template: "biomedical" (`title [SEP] types [SEP] description`) or "general" (`title [ENT] description`).
        aliases: "fallback" (they stand in for a missing description), "first" (they come before it) or "never".
        precision: "auto" (bfloat16 where the hardware has it), "bf16", "fp32", or for predictions on CPUs "int8" (8-bit
            products, for processors without bfloat16), "openvino" (OpenVINO runs the towers, as "auto") or
            "openvino-int8"; training, and GPUs, are then as with "auto".
        context: The most word pieces of context on either side of a mention. 0: the mention's text alone; None: all
            that fits.
        pooling: Which tokens of a row make its vector: "mean" (all of them, as in the paper), "mention" (those of the
            mention; of an entity, all) or "cls" (the first).
        mentions: How mentions are read: "windows" (each in a row of its own, between markers, as in the paper) or
            "document" (the row of a document is read once, and the vector of a mention is the mean over its pieces,
            whatever `pooling` says of entities).
        score: How pairs are scored: `spacy_pel.DualScore.v1`, `spacy_pel.MultiVectorScore.v1`,
            `spacy_pel.SumOfMax.v1`, `spacy_pel.PolyEncoder.v1` or `spacy_pel.GeneralPoly.v1`; None: the first.

    Returns:
        Model[tuple[Readable, TokenRows], tuple[Floats2d, Floats2d]]: the rows of m mentions and n entities to vectors
        (m, hidden) and (n, hidden), or where the score keeps more, to `Several` each.

    Raises:
        PelError: A setting does not exist, or does not go with the score.
    """
    settings = dict(locals())
    check_choice(SECTION, "mentions", mentions, MENTIONS)
    rows = RowSettings(mention_length, entity_length, entity_template, aliases, context, mentions)
    check_choice(SECTION, "similarity", similarity, SIMILARITIES)
    check_choice(SECTION, "pooling", pooling, POOLINGS)
    check_flag(SECTION, "shared_towers", shared_towers)
    check_precision(precision)
    score = _checked_score(settings)
    kept = [own(pooling, similarity == "cosine") for own in (score.pooling_of_mentions, score.pooling_of_entities)]
    modules = [Tower(own, precision) for own in (kept[:1] if shared_towers else kept)]
    return _bi_encoder([make_tower(module) for module in modules], settings, rows, score)


def _checked_score(settings: dict[str, Any]) -> Score:
    """Return the score in `settings`, and leave there what is saved of it."""
    score = Dual() if (own := settings.pop("score")) is None else own
    if not isinstance(score, Score):
        raise refused(SECTION, "score", score, 'make it a section with "@architectures": "spacy_pel.DualScore.v1"')
    score.check(settings)
    if score.setting is not None:
        settings["score"] = score.setting
    return score


def _bi_encoder(towers: list[Model], settings: dict[str, Any], rows: RowSettings, score: Score | None = None) -> Model:
    return Model(
        "pel_bi_encoder",
        _forward,
        layers=towers,
        refs={"mention_tower": towers[0], "entity_tower": towers[-1]},
        attrs={"settings": settings, "row_settings": rows, "row_builder": None, "score": score or Dual()},
    )


def make_document_encoder(
    window: int = 384,
    entity_length: int = 128,
    similarity: str = "cosine",
    shared_towers: bool = False,
    entity_template: str = "biomedical",
    aliases: str = "fallback",
    precision: str = "auto",
) -> Model:
    """Build a bi-encoder without weights that reads a document once for all its mentions: `spacy_pel.BiEncoder.v1` with
    `mentions = "document"`.

    Args:
        window: The longest row, in word pieces. A longer text is cut into such windows, which share a quarter.
        entity_length: As for `spacy_pel.BiEncoder.v1`, like all that follow.
        similarity: "cosine" or "dot".
        shared_towers: One transformer instead of two.
        entity_template: "biomedical" or "general".
        aliases: "fallback", "first" or "never".
        precision: As for `spacy_pel.BiEncoder.v1`.

    Returns:
        The model, as that architecture gives it.

    Raises:
        PelError: A setting does not exist.
    """
    check_count(SECTION, "window", window, least=SHORTEST_MENTION)
    return make_bi_encoder(
        mention_length=window,
        entity_length=entity_length,
        similarity=similarity,
        shared_towers=shared_towers,
        entity_template=entity_template,
        aliases=aliases,
        precision=precision,
        mentions="document",
    )


def make_transformer_listener(
    upstream: str = "*",
    grad_factor: float = 1.0,
    entity_length: int = 128,
    similarity: str = "cosine",
    entity_template: str = "biomedical",
    aliases: str = "fallback",
    precision: str = "auto",
) -> Model:
    """Build a bi-encoder without weights whose mentions are read by a `transformer` pipe of spacy-transformers, or a
    `curated_transformer` of spacy-curated-transformers. The vector of a mention is the mean of the pipe's last hidden
    states over its word pieces, then a linear layer. Entities have a tower of their own, as in `make_bi_encoder`.

    Args:
        upstream: The name of that pipe; "*" for any.
        grad_factor: What gradients are multiplied by on their way to that pipe; 0: it learns nothing from links.
        entity_length: See `make_bi_encoder`, for this and those that follow.
        similarity: "cosine" or "dot".
        entity_template: "biomedical" or "general".
        aliases: "fallback", "first" or "never".
        precision: Of the entity tower; see `make_bi_encoder`.

    Returns:
        Model[tuple[Readable, TokenRows], tuple[Floats2d, Floats2d]]: m mentions in Docs that the pipe has read and the
        rows of n entities to vectors (m, hidden) and (n, hidden).

    Raises:
        PelError: A setting does not exist, or neither of the two packages is installed.
    """
    settings = dict(locals())
    check_text(SECTION, "upstream", upstream, 'name the transformer pipe, or give "*"')
    check_number(SECTION, "grad_factor", grad_factor, least=0)
    rows = RowSettings(SHORTEST_MENTION, entity_length, entity_template, aliases, mentions=LENT)
    check_choice(SECTION, "similarity", similarity, SIMILARITIES)
    check_precision(precision)
    unit_length = similarity == "cosine"
    mention_tower = make_listening_tower(upstream, grad_factor, unit_length)
    entity_tower = make_tower(Tower(Pooling("mean", unit_length), precision))
    return _bi_encoder([mention_tower, entity_tower], settings, rows)


def _forward(model: Model, rows: tuple[Readable, TokenRows], is_train: bool) -> tuple:
    mentions, backprop_mentions = model.get_ref("mention_tower")(rows[0], is_train)
    entities, backprop_entities = model.get_ref("entity_tower")(rows[1], is_train)

    def backprop(d_vectors: tuple[Floats2d, Floats2d]) -> tuple[list, list]:
        return backprop_mentions(d_vectors[0]), backprop_entities(d_vectors[1])

    return (mentions, entities), backprop


def set_encoder(model: Model, encoder: PretrainedEncoder, nlp: Language | None = None) -> None:
    """Give both towers the weights of one pretrained encoder: a copy each, unless they are shared, or the encoder has
    others for entities. A tower that listens to a transformer pipe gets a projection in their place. Projection and
    codes are those of the encoder if it has some of that shape, else new ones. A warning says where learnt ones are
    dropped.

    Args:
        model: A bi-encoder.
        encoder: The weights.
        nlp: The pipeline with the transformer pipe, for a bi-encoder that listens to one.

    Raises:
        PelError: The rows are longer than the encoder reads, there is no pipe to listen to (see `width_of_states`), or
            shared towers are to have two transformers.
    """
    if encoder.for_entities is not None and model.attrs["settings"].get("shared_towers"):
        raise _not_shared(encoder)
    check_fits(max(model.attrs["row_settings"].mention_length, model.attrs["row_settings"].entity_length), encoder)
    own = model.layers
    if listens(model):
        tower, *own = model.layers
        _connect(tower, width_of_states(tower, nlp), encoder)
    model.attrs["row_builder"] = builder = RowBuilder(encoder.tokenizer, model.attrs["row_settings"])
    for i, tower in enumerate(own):
        transformer = encoder.transformer if i == 0 else copy.deepcopy(encoder.transformer)
        if encoder.for_entities is not None and tower is own[-1]:
            transformer = encoder.for_entities
        if isinstance(codes := tower_module(tower).pooling, Codes):
            _set_codes(codes, encoder)
        set_transformer(tower, transformer, builder.pad, builder.markers)
    if encoder.projection is not None and not listens(model):
        _warn_of_dropped(encoder, "a linear layer for states of a pipe, and this one reads none", "it is dropped")
    if encoder.codes is not None and not any(isinstance(tower_module(tower).pooling, Codes) for tower in own):
        _warn_of_dropped(encoder, f"{len(encoder.codes)} codes, and the score asks for none", "they are dropped")


def _not_shared(encoder: PretrainedEncoder) -> PelError:
    """The error of an encoder with another transformer for entities, for towers that share one."""
    loader = "[initialize.components.pel_linker.encoder_loader]"
    if encoder.linker is None:
        what = f"entity_name in {loader} is an encoder for entities alone; leave one of them out"
    else:
        what = f"name = {encoder.linker!r} in {loader} is a linker with two; leave shared_towers out, or name another"
    return PelError(f"{SECTION}: shared_towers = true, and {what}.")


def _connect(tower: Model, width: int, encoder: PretrainedEncoder) -> None:
    """Give a listening tower the projection of `encoder`, or a new one where that is not of states (n, width)."""
    size, saved = encoder.transformer.config.hidden_size, encoder.projection
    if saved is not None and tuple(saved["linear.weight"].shape) == (size, width):
        set_projection(tower, saved)
        return
    if saved is not None:
        found = saved["linear.weight"].shape[1]
        _warn_of_dropped(encoder, f"a linear layer for states of {found} dimensions, not {width}")
    connect(tower, width, size)


def _set_codes(pooling: Codes, encoder: PretrainedEncoder) -> None:
    """Give a pooling the codes of `encoder`, or new ones where that has none, or another number."""
    if encoder.codes is not None and len(encoder.codes) == pooling.number:
        pooling.set_codes(encoder.codes)
        return
    if encoder.codes is not None:
        _warn_of_dropped(encoder, f"{len(encoder.codes)} codes, and the score asks for {pooling.number}")
    pooling.new_codes(encoder.transformer.config.hidden_size)


def _warn_of_dropped(encoder: PretrainedEncoder, what: str, then: str = "new ones are learnt in their place") -> None:
    """Warn that something that a saved linker has learnt is not taken. what: what it has, and is asked for."""
    warnings.warn(f"{SECTION}: {encoder.linker} has {what}: {then}.", stacklevel=4)


def encoder_of(model: Model) -> PretrainedEncoder:
    """A copy of the encoder that reads mentions, or where a transformer pipe does, of that for entities.

    Raises:
        PelError: The bi-encoder has no weights.
    """
    builder = row_builder(model)
    transformer: Any = tower_module(model.get_ref("entity_tower" if listens(model) else "mention_tower")).transformer
    return PretrainedEncoder(copy.deepcopy(transformer).requires_grad_(True), builder.tokenizer)  # it may be frozen


def has_encoder(model: Model) -> bool:
    """Say whether the bi-encoder has weights."""
    return model.attrs["row_builder"] is not None


def row_builder(model: Model) -> RowBuilder:
    """Return what makes the bi-encoder's token rows.

    Raises:
        PelError: The bi-encoder has no weights.
    """
    if not has_encoder(model):
        raise PelError(
            "pel_linker has no encoder yet: load a trained pipeline, or name an encoder_loader in "
            "[initialize.components.pel_linker] and initialise the pipeline."
        )
    return model.attrs["row_builder"]


def score_of(model: Model) -> Score:
    """Return how the bi-encoder's vectors are scored."""
    return model.attrs["score"]


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
        `Score.queries`), and for every span (n,) its place
        among them, or `UNREADABLE` for a span without a word piece.
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
    row_builder(model).check_reads_names()


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


def vector_size(model: Model) -> int:
    """Return the number of dimensions of the vectors."""
    transformer = tower_module(model.get_ref("entity_tower")).transformer
    assert transformer is not None
    return transformer.config.hidden_size
