"""A cross-encoder on disk.

model/
  cross_encoder.json            the settings it was built with
  tokenizer/                    Hugging Face tokenizer files
  pairs/                        the transformer: config.json, model.safetensors
  score.safetensors             the head: a linear layer, or a pooler and one
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly
from thinc.api import Model

from ..errors import PelError
from .cross_encoder import make_cross_encoder, new_head, pair_tower, set_encoder
from .encoder import has_encoder
from .encoder_loader import PretrainedEncoder
from .weights import (
    load_tokenizer,
    load_transformer,
    load_weights,
    reading,
    save_tokenizer,
    save_transformer,
    save_weights,
)

SETTINGS, WEIGHTS, HEAD = "cross_encoder.json", "pairs", "score.safetensors"


def save(model: Model, path: Path) -> None:
    """Write a cross-encoder into the folder `path`.

    Raises:
        PelError: It has no weights, or a file cannot be written.
    """
    if not has_encoder(model):
        raise PelError("pel_ranker has no encoder yet: initialise the pipeline before you save it.")
    (path / WEIGHTS).mkdir(parents=True, exist_ok=True)
    module: Any = pair_tower(model)
    save_tokenizer(model.attrs["row_builder"].tokenizer, path / "tokenizer")
    save_transformer(module.transformer, path / WEIGHTS)
    save_weights(module.head, path / HEAD)
    srsly.write_json(path / SETTINGS, model.attrs["settings"])


def load(path: Path, precision: str) -> Model:
    """Read what `save` wrote, whatever its settings.

    Args:
        path: The folder.
        precision: What to compute in; that is the reader's to choose.

    Raises:
        PelError: A file of the folder is missing or broken.
    """
    with reading(path, "cross-encoder"):
        settings: Any = srsly.read_json(path / SETTINGS)
        model = make_cross_encoder(**{**settings, "precision": precision})
        encoder = PretrainedEncoder(load_transformer(path / WEIGHTS), load_tokenizer(path / "tokenizer"))
        head = new_head(settings["pooling"], encoder)
        head.load_state_dict(load_weights(path / HEAD))
        set_encoder(model, encoder, head)
    return model
