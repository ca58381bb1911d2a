"""`spacy_pel.BiEncoder.v1`: a mention tower and an entity tower as one thinc model; what it is made of.

Its weights come from `pretrained` or `storage`; `encoding` makes vectors with it.
"""

from __future__ import annotations

from typing import Any

from thinc.api import Model
from thinc.types import Floats2d

from ..checks import check_choice, check_count, check_flag, check_number, check_text, refused
from ..errors import PelError
from .encoder import Tower, has_encoder, make_tower, tower_module
from .inputs import LENT, MENTIONS, SECTION, SHORTEST_MENTION, RowBuilder, RowSettings
from .listener import make_listening_tower
from .pooling import POOLINGS, Pooling
from .precision import check_precision
from .scoring.dual import SIMILARITIES, Dual
from .scoring.score import Score
from .token_rows import Readable, TokenRows


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


def vector_size(model: Model) -> int:
    """Return the number of dimensions of the vectors."""
    transformer = tower_module(model.get_ref("entity_tower")).transformer
    assert transformer is not None
    return transformer.config.hidden_size
