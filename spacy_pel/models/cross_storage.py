"""A cross-encoder on disk.

model/
  cross_encoder.json            the settings it was built with
  tokenizer/                    Hugging Face tokenizer files
  pairs/                        the transformer: config.json, model.safetensors
  score.safetensors             the linear layer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly
from thinc.api import Model
from torch import nn

from ..errors import PelError
from .cross_encoder import has_encoder, make_cross_encoder, pair_tower, set_encoder
from .encoder_loader import PretrainedEncoder
from .no_code import reason
from .weights import load_tokenizer, load_transformer, load_weights, save_tokenizer, save_weights

SETTINGS, WEIGHTS, LINEAR = "cross_encoder.json", "pairs", "score.safetensors"


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
    module.transformer.config.to_json_file(path / WEIGHTS / "config.json", use_diff=False)
    save_weights(module.transformer, path / WEIGHTS / "model.safetensors")
    save_weights(module.linear, path / LINEAR)
    srsly.write_json(path / SETTINGS, model.attrs["settings"])


def load(path: Path, precision: str) -> Model:
    """Read what `save` wrote, whatever its settings.

    Args:
        path: The folder.
        precision: What to compute in; that is the reader's to choose.

    Raises:
        PelError: A file of the folder is missing or broken.
    """
    try:
        settings: Any = srsly.read_json(path / SETTINGS)
        model = make_cross_encoder(**{**settings, "precision": precision})
        encoder = PretrainedEncoder(load_transformer(path / WEIGHTS), load_tokenizer(path / "tokenizer"))
        linear = nn.Linear(encoder.transformer.config.hidden_size, 1)
        linear.load_state_dict(load_weights(path / LINEAR))
        set_encoder(model, encoder, linear)
    except PelError as error:
        raise PelError(f"{path}: no cross-encoder can be read from this folder ({error}); copy it again.") from error
    except Exception as error:  # transformers, tokenizers and torch raise whatever they meet
        raise PelError(
            f"{path}: no cross-encoder can be read from this folder ({reason(error)}); copy it again."
        ) from error
    return model
