"""Tokenizers, transformers and weights as files: Hugging Face's formats, read without any code of theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from thinc.api import get_torch_default_device
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.modeling_utils import no_init_weights

from ..errors import PelError
from .encoder_loader import attention_for
from .no_code import NO_CODE, without_kernel


def save_tokenizer(tokenizer: Any, path: Path) -> None:
    """Write a tokenizer into the folder `path`.

    Raises:
        PelError: It cannot be written.
    """
    try:
        tokenizer.save_pretrained(path)
    except OSError:
        raise
    except Exception as error:  # what tokenizers raise, such as for a full disk
        raise PelError(f"{path}: cannot be written ({error}).") from error


def save_weights(module: torch.nn.Module, path: Path) -> None:
    """Write the weights of a module to a file of safetensors, which is replaced whole: one that is open (or mapped)
    elsewhere stays as it is there.

    Raises:
        PelError: It cannot be written.
    """
    partial = path.with_name(f"{path.name}.part")
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    try:
        save_file(weights, partial, metadata={"format": "pt"})
    except SafetensorError as error:  # such as a full disk
        raise PelError(f"{path}: cannot be written ({error}).") from error
    os.replace(partial, path)


def load_tokenizer(path: Path) -> Any:
    """Read a tokenizer from the folder `path`."""
    return AutoTokenizer.from_pretrained(path, local_files_only=True, **NO_CODE)


def load_transformer(path: Path) -> Any:
    """Read a transformer from the folder `path`: config.json and model.safetensors."""
    config = without_kernel(AutoConfig.from_pretrained(path, local_files_only=True, **NO_CODE))
    attention = attention_for(get_torch_default_device())
    with no_init_weights():
        transformer = AutoModel.from_config(config, torch_dtype=torch.float32, **NO_CODE, **attention)
    transformer.pooler = None
    transformer.load_state_dict(load_weights(path / "model.safetensors"))
    return transformer


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read what `save_weights` wrote.

    Raises:
        PelError: It cannot be read.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise PelError(f"{path}: not a readable safetensors file ({error})") from error
