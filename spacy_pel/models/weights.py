"""Tokenizers, transformers and weights as files: Hugging Face's formats, read without any code of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from thinc.api import get_torch_default_device
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.modeling_utils import no_init_weights

from ..errors import PelError
from .no_code import NO_CODE, reason, without_kernel


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


def save_transformer(transformer: Any, path: Path) -> None:
    """Write a transformer into the folder `path`: config.json and model.safetensors.

    Raises:
        PelError: It cannot be written.
    """
    transformer.config.to_json_file(path / "config.json", use_diff=False)
    save_weights(transformer, path / "model.safetensors")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Whatever is raised in this block says that no `what` can be read from the folder `path`.

    Raises:
        PelError: In its place.
    """
    try:
        yield
    except PelError as error:
        raise PelError(f"{path}: no {what} can be read from this folder ({error}); copy it again.") from error
    except Exception as error:  # transformers, tokenizers and torch raise whatever they meet
        raise PelError(f"{path}: no {what} can be read from this folder ({reason(error)}); copy it again.") from error


def attention_for(device: Any) -> dict[str, str]:
    """Choose the attention for `device`: the plain one on CPUs, where the fused kernel's backward pass is many times
    slower (for predictions see `spacy_pel.models.predictions`); elsewhere what transformers chooses, the fused one if
    the encoder has it."""
    return {"attn_implementation": "eager"} if device.type == "cpu" else {}


def load_tokenizer(path: Path) -> Any:
    """Read a tokenizer from the folder `path`."""
    return AutoTokenizer.from_pretrained(path, local_files_only=True, **NO_CODE)


def load_transformer(path: Path) -> Any:
    """Read a transformer from the folder `path`: config.json and model.safetensors."""
    config = AutoConfig.from_pretrained(path, local_files_only=True, **NO_CODE)
    transformer = empty_transformer(config, **attention_for(get_torch_default_device()))
    transformer.load_state_dict(load_weights(path / "model.safetensors"))
    return transformer


def empty_transformer(config: Any, **attention: str) -> Any:
    """Make a transformer of that configuration, without a pooler, whose weights are yet to be loaded."""
    with no_init_weights():
        transformer = AutoModel.from_config(without_kernel(config), torch_dtype=torch.float32, **NO_CODE, **attention)
    transformer.pooler = None
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
