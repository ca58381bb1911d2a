"""`spacy_pel.CrossEncoder.v1`: a mention and an entity in one row, read together by one transformer, to a score.

A row is `[CLS] left [Ms] mention [Me] right [SEP] entity row [SEP]` (Wiatrak et al. 2022, appendix B): the mention row
and the entity row of a bi-encoder, one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from spacy.tokens import Span
from thinc.api import Model, to_numpy
from thinc.types import Floats2d
from torch import nn

from ..checks import check_choice
from ..errors import PelError
from ..kb.entity import Entity
from ..kb.stretches import stretches
from .encoder import Tower, make_tower, set_transformer, tower_module
from .encoder_loader import PretrainedEncoder, check_fits
from .inputs import RowBuilder, RowSettings
from .pooling import Pooling
from .precision import check_precision
from .token_rows import Rows, TokenRows

SECTION = "[components.pel_ranker.model]"
POOLINGS = ("mean", "cls")
SPREAD = 0.02  # of the weights of a new linear layer, as BERT's


class PairTower(Tower):
    """A transformer, the pooling of its last hidden states, and a linear layer from these to a score.

    Attributes:
        linear: None until `set_encoder` gives one.
        separator: The token id of `[SEP]`, which ends the mention's part of a row.
    """

    def __init__(self, pooling: Pooling, precision: str) -> None:
        super().__init__(pooling, precision)
        self.linear: nn.Linear | None = None
        self.separator = -1

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, step: torch.Tensor | None, spots: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Score the pairs (n) of a padded batch, (n, 1). See `Tower.states` for the arguments."""
        assert self.linear is not None
        return self.linear(super().forward(ids, mask, step, spots))

    def more_inputs(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Segment ids, where the transformer has them: 0 for the mention's part of a row, 1 for the entity's."""
        if getattr(self.transformer.config, "type_vocab_size", 0) < 2:  # type: ignore[union-attr]
            return {}
        return {"token_type_ids": torch.as_tensor(behind_separator(ids, self.separator), dtype=torch.long)}


def behind_separator(ids: Any, separator: int) -> Any:
    """Where in rows (n, t) the entity's part is: behind the first `separator`. (n, t) bool, of arrays or tensors."""
    is_separator = ids == separator
    return is_separator.cumsum(1) > is_separator


def make_cross_encoder(
    mention_length: int = 128,
    entity_length: int = 128,
    entity_template: str = "biomedical",
    aliases: str = "first",
    pooling: str = "mean",
    precision: str = "auto",
    context: int | None = None,
) -> Model[Rows, Floats2d]:
    """Build a cross-encoder without weights. An `encoder_loader` gives it those.

    Args:
        mention_length: The longest part of a mention, in word pieces, markers included.
        entity_length: The longest part of an entity.
        entity_template: See `spacy_pel.BiEncoder.v1`, for this and those that follow.
        aliases: "fallback", "first" or "never".
        pooling: Whose states a score is made of: "mean" (of all tokens) or "cls" (the first, as in Zhang & Stratos
            2021).
        precision: "auto", "bf16", "fp32" or "int8".
        context: The most word pieces on either side of a mention; None: all that fits.

    Returns:
        The rows of n pairs to scores (n, 1).

    Raises:
        PelError: A setting does not exist.
    """
    settings = dict(locals())
    rows = RowSettings(mention_length, entity_length, entity_template, aliases, context, section=SECTION)
    check_choice(SECTION, "pooling", pooling, POOLINGS)
    check_precision(precision)
    tower = make_tower(PairTower(Pooling(pooling, unit_length=False), precision))
    tower.attrs.update({"settings": settings, "row_settings": rows, "row_builder": None})
    return tower


def set_encoder(model: Model, encoder: PretrainedEncoder, linear: nn.Linear | None = None) -> None:
    """Give a cross-encoder its transformer and its linear layer, by default a new one.

    Raises:
        PelError: The rows are longer than the encoder reads.
    """
    settings = model.attrs["row_settings"]
    check_fits(settings.mention_length + settings.entity_length - 1, encoder, SECTION)
    model.attrs["row_builder"] = builder = RowBuilder(encoder.tokenizer, settings)
    module = pair_tower(model)
    module.linear = linear or _new_linear(encoder.transformer.config.hidden_size)
    module.separator = encoder.tokenizer.sep_token_id
    set_transformer(model, encoder.transformer, builder.pad, builder.markers)


def _new_linear(size: int) -> nn.Linear:
    linear = nn.Linear(size, 1)
    nn.init.normal_(linear.weight, std=SPREAD)
    nn.init.zeros_(linear.bias)
    return linear


def pair_tower(model: Model) -> PairTower:
    """Return the PyTorch module of a cross-encoder."""
    module = tower_module(model)
    assert isinstance(module, PairTower)
    return module


def has_encoder(model: Model) -> bool:
    """Say whether a cross-encoder has weights."""
    return model.attrs["row_builder"] is not None


def rows_of_pairs(model: Model, spans: Sequence[Span], candidates: Sequence[Sequence[Entity]]) -> TokenRows:
    """Make one row a pair: of each of m mentions with each of its candidates, mention by mention.

    Raises:
        PelError: The cross-encoder has no weights.
    """
    if not has_encoder(model):
        raise PelError(
            "pel_ranker has no encoder yet: load a trained pipeline, or name an encoder_loader in "
            "[initialize.components.pel_ranker] and initialise the pipeline."
        )
    builder: RowBuilder = model.attrs["row_builder"]
    distinct = {entity.id: entity for own in candidates for entity in own}
    place_of = {id_: place for place, id_ in enumerate(distinct)}
    mention_of = np.repeat(np.arange(len(spans)), [len(own) for own in candidates])
    entity_of = [place_of[entity.id] for own in candidates for entity in own]
    return joined(builder.windows(spans).take(mention_of), builder.entities(distinct.values()).take(entity_of))


def joined(left: TokenRows, right: TokenRows) -> TokenRows:
    """Put each row of `right` behind that of `left`, without its first token."""
    more = right.lengths - 1
    lengths = left.lengths + more
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
    tokens = np.empty(offsets[-1], dtype="int32")
    tokens[stretches(offsets[:-1], left.lengths)] = left.tokens
    tokens[stretches(offsets[:-1] + left.lengths, more)] = right.tokens[stretches(right.offsets[:-1] + 1, more)]
    return TokenRows(tokens, offsets)


def score_pairs(model: Model, spans: Sequence[Span], candidates: Sequence[Sequence[Entity]]) -> np.ndarray:
    """Score each of m mentions with each of its candidates, mention by mention: (pairs,) float32.

    Raises:
        PelError: The cross-encoder has no weights, or gives scores that are not finite.
    """
    rows = rows_of_pairs(model, spans, candidates)
    scores = to_numpy(model.predict(rows))[:, 0] if len(rows) else np.empty(0, dtype=np.float32)
    if not np.isfinite(scores).all():
        raise PelError(
            "pel_ranker gives scores that are not finite: its weights are broken. Copy the pipeline again, or train it "
            "again with a lower learn_rate."
        )
    return scores
