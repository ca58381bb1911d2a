"""A bi-encoder is given the weights of a pretrained encoder, or of a saved linker, and gives its encoder to others."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from spacy.language import Language
from thinc.api import Model

from ..errors import PelError
from .bi_encoder import row_builder
from .encoder import set_transformer, tower_module
from .encoder_loader import PretrainedEncoder, check_fits
from .inputs import SECTION, RowBuilder
from .lent_width import width_of_states
from .listener import connect, listens, set_projection
from .several_pooling import Codes


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
        if encoder.for_entities is not None and tower is own[-1]:
            transformer = encoder.for_entities
        else:
            transformer = encoder.transformer if i == 0 else copy.deepcopy(encoder.transformer)
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
