"""`spacy_pel.CrossEncoder.v1`: a mention and an entity in one row, read together by one transformer, to a score.

A row is `[CLS] left [Ms] mention [Me] right [SEP] entity row [SEP]` (Wiatrak et al. 2022, appendix B): the mention row
and the entity row of a bi-encoder, one behind the other. With `rows = "mentions"` all candidates of a mention stand
behind it, and each sees the mention and itself: the mention, which sees itself alone, is encoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from spacy.tokens import Span
from thinc.api import Model, to_numpy
from thinc.types import Floats2d
from torch import nn
from torch.nn import functional

from ..checks import check_choice, check_flag, refused
from ..errors import PelError
from ..kb.entity import Entity
from .encoder import Tower, has_encoder, make_tower, set_transformer, tower_module
from .encoder_loader import PretrainedEncoder, check_fits, dropout_of
from .inputs import ALIASES, RowBuilder, RowSettings
from .nearest_names import nearest_first
from .pair_rows import all_behind, behind, sharing_room
from .pooling import Pooling
from .precision import check_precision
from .shared_rows import SharedRows
from .token_rows import Rows, TokenRows

SECTION = "[components.pel_ranker.model]"
POOLER = "pooler"
POOLINGS = ("mean", "cls", POOLER)
PAIRS, MENTIONS = ROWS = ("pairs", "mentions")
NEAREST = "nearest"
SPREAD = 0.02  # of the weights of a new linear layer, as BERT's


class PairTower(Tower):
    """A transformer, the pooling of its last hidden states, and a head from these to a score.

    Attributes:
        head: A linear layer, or BERT's pooler and one; None until `set_encoder` gives one.
        separator: The token id of `[SEP]`, which ends the mention's part of a row.
    """

    pooling: Pooling

    def __init__(self, pooling: Pooling, precision: str) -> None:
        super().__init__(pooling, precision)
        self.head: nn.Module | None = None
        self.separator = -1

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, step: torch.Tensor | None, spots: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Score the pairs of a padded batch, (k, 1): a row each, or a candidate of `spots` each. See `Tower.states` for
        the arguments."""
        assert self.head is not None
        if spots is None:
            segments = self._segments(behind_separator(ids, self.separator))
            return self.head(self.pooling(self.states(ids, mask, step, **segments), ids, mask))
        blocks, positions = blocks_of(mask, spots)
        seen = ((blocks[:, :, None] == blocks[:, None]) | (blocks[:, None] == 0)) & mask[:, None]
        states = self.states(ids, seen, step, position_ids=positions, **self._segments(blocks > 0))
        return self.head(self.pooling.of_spots(states, spots))

    def _segments(self, of_entity: torch.Tensor) -> dict[str, torch.Tensor]:
        """Segment ids, where the transformer has them: 1 for tokens `of_entity`, 0 for those of the mention's part."""
        if getattr(self.transformer.config, "type_vocab_size", 0) < 2:  # type: ignore[union-attr]
            return {}
        return {"token_type_ids": of_entity.long()}


class LearningDropout(nn.Dropout):
    """Dropout where what it is given has gradients, whatever the mode: see `Tower.train`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return functional.dropout(input, self.p, training=input.requires_grad)


def blocks_of(mask: torch.Tensor, spots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the tokens of rows (n, t) belong to, and their positions, where each of k candidates stands at its spot.

    Args:
        mask: (n, t), True at real tokens.
        spots: (k, 3), the row of each candidate, its first token and the one behind its last.

    Returns:
        (n, t): 0 in the mention, i + 1 in candidate i; and (n, t): counted through the mention, and from its end in
        each candidate.
    """
    places = torch.arange(mask.shape[1], device=mask.device)
    rows, starts, ends = spots.unbind(1)
    inside = (places >= starts[:, None]) & (places < ends[:, None])
    numbers = torch.arange(1, len(spots) + 1, device=mask.device)
    blocks = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    blocks.index_add_(0, rows, inside * numbers[:, None])
    first = torch.full((len(mask),), mask.shape[1], device=mask.device).scatter_reduce(0, rows, starts, "amin")
    shifts = torch.zeros_like(blocks).index_add_(0, rows, inside * (first[rows] - starts)[:, None])
    return blocks, (places + shifts) * mask


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
    rows: str = PAIRS,
    share_room: bool = False,
) -> Model[Rows, Floats2d]:
    """Build a cross-encoder without weights. An `encoder_loader` gives it those.

    Args:
        mention_length: The longest part of a mention, in word pieces, markers included.
        entity_length: The longest part of an entity.
        entity_template: See `spacy_pel.BiEncoder.v1`, for this and those that follow.
        aliases: "fallback", "first", "never", or "nearest": first, in the order of their likeness to the mention.
        pooling: Whose states a score is made of: "mean" (of all tokens), "cls" (the first), or "pooler" (the first
            through the encoder's pooler, tanh(W x + b), and its dropout, as in Zhang & Stratos 2021; a new pooler where
            it has none).
        precision: See `spacy_pel.BiEncoder.v1`.
        context: The most word pieces on either side of a mention; None: all that fits.
        rows: "pairs": a mention stands in a row with each of its candidates, and both see one another. "mentions": in
            one row with all, which see it and not one another, and it sees none; a score is made of the candidate's
            states. That is for encoders of BERT's kind.
        share_room: Whether either part of a row may be longer by what the other leaves, as in Wiatrak et al. 2022; for
            `rows = "pairs"`.

    Returns:
        The rows of n pairs to scores (n, 1).

    Raises:
        PelError: A setting does not exist.
    """
    settings = dict(locals())
    check_choice(SECTION, "aliases", aliases, (*ALIASES, NEAREST))
    check_choice(SECTION, "pooling", pooling, POOLINGS)
    check_choice(SECTION, "rows", rows, ROWS)
    check_precision(precision, SECTION)
    if rows == MENTIONS and pooling != "mean":
        raise refused(
            SECTION, "pooling", pooling, f'make it "mean", or rows = "{PAIRS}": the first token sees no entity'
        )
    check_flag(SECTION, "share_room", share_room)
    if share_room and rows == MENTIONS:
        raise refused(SECTION, "share_room", share_room, f'leave it out, or make rows = "{PAIRS}"')
    read = "first" if aliases == NEAREST else aliases
    row_settings = RowSettings(mention_length, entity_length, entity_template, read, context, section=SECTION)
    if share_room:
        both = mention_length + entity_length
        row_settings = replace(row_settings, mention_length=both, entity_length=both)
    tower = make_tower(PairTower(Pooling("cls" if pooling == POOLER else pooling, unit_length=False), precision))
    tower.attrs.update({"settings": settings, "row_settings": row_settings, "row_builder": None})
    return tower


def set_encoder(model: Model, encoder: PretrainedEncoder, head: nn.Module | None = None) -> None:
    """Give a cross-encoder its transformer and its head, by default a new one.

    Raises:
        PelError: The rows are longer than the encoder reads, it cannot read a mention with all candidates, or it has
            another transformer for entities.
    """
    if encoder.for_entities is not None:
        own, linker = "leave entity_name of the encoder out", encoder.linker
        advice = own if linker is None else f"name another encoder than the linker {linker!r}, which has two"
        raise PelError(f"{SECTION}: one transformer reads mention and entity; {advice}.")
    check_fits(sum(_longest(model)) - 1, encoder, SECTION)
    kind = encoder.transformer.config.model_type
    if model.attrs["settings"]["rows"] == MENTIONS and kind != "bert":
        raise refused(
            SECTION, "rows", MENTIONS, f'make it "{PAIRS}": that is for encoders of the kind bert, not {kind}'
        )
    model.attrs["row_builder"] = builder = RowBuilder(encoder.tokenizer, model.attrs["row_settings"])
    module = pair_tower(model)
    module.head = head or new_head(model.attrs["settings"]["pooling"], encoder)
    module.separator = encoder.tokenizer.sep_token_id
    set_transformer(model, encoder.transformer, builder.pad, builder.markers)


def new_head(pooling: str, encoder: PretrainedEncoder) -> nn.Module:
    """A head of a cross-encoder with that `pooling`, of which only the pooler of `encoder` has learnt anything."""
    size = encoder.transformer.config.hidden_size
    score = _new_linear(size, 1)
    if pooling != POOLER:
        return score
    # One layer of the head, so that the score stays its layer 2 on disk
    activation = nn.Sequential(nn.Tanh(), LearningDropout(dropout_of(encoder.transformer.config)))
    return nn.Sequential(encoder.pooler or _new_linear(size, size), activation, score)


def _new_linear(size: int, width: int) -> nn.Linear:
    linear = nn.Linear(size, width)
    nn.init.normal_(linear.weight, std=SPREAD)
    nn.init.zeros_(linear.bias)
    return linear


def pair_tower(model: Model) -> PairTower:
    """Return the PyTorch module of a cross-encoder."""
    module = tower_module(model)
    assert isinstance(module, PairTower)
    return module


def rows_of_pairs(
    model: Model, spans: Sequence[Span], candidates: Sequence[Sequence[Entity]]
) -> TokenRows | SharedRows:
    """Make the rows of m mentions with each of their candidates, mention by mention: one a pair, or one a mention.

    Raises:
        PelError: The cross-encoder has no weights.
    """
    if not has_encoder(model):
        raise PelError(
            "pel_ranker has no encoder yet: load a trained pipeline, or name an encoder_loader in "
            "[initialize.components.pel_ranker] and initialise the pipeline."
        )
    builder: RowBuilder = model.attrs["row_builder"]
    windows = builder.windows(spans)
    mention_of = np.repeat(np.arange(len(spans)), [len(own) for own in candidates])
    entities = _entity_rows(model, [span.text for span in spans], candidates)
    if model.attrs["settings"]["share_room"]:
        return sharing_room(windows, entities, mention_of, _longest(model), builder.markers)
    if model.attrs["settings"]["rows"] == PAIRS:
        return behind(windows, entities, mention_of)
    return all_behind(windows, entities, mention_of)


def _longest(model: Model) -> tuple[int, int]:
    """The lengths of the part of a mention, and of that of an entity, in its settings."""
    settings = model.attrs["settings"]
    return settings["mention_length"], settings["entity_length"]


def _entity_rows(model: Model, mentions: Sequence[str], candidates: Sequence[Sequence[Entity]]) -> TokenRows:
    """The rows of the candidates as each mention reads them, those that are the same made once."""
    nearest = model.attrs["settings"]["aliases"] == NEAREST
    distinct: dict[tuple[str, str], Entity] = {}
    keys = []
    for mention, own in zip(mentions, candidates, strict=True):
        text = mention if nearest else ""
        keys += [(entity.id, text) for entity in own]
        if new := [entity for entity in own if (entity.id, text) not in distinct]:
            read = nearest_first(mention, new) if nearest else new
            distinct |= {(entity.id, text): entity for entity in read}
    place_of = {key: place for place, key in enumerate(distinct)}
    return model.attrs["row_builder"].entities(distinct.values()).take([place_of[key] for key in keys])


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
