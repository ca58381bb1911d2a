"""The transformer that predicts on CPUs: with an attention that is faster forwards and slower backwards, in PyTorch or
in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from .int8 import int8_copy
from .weights import empty_transformer

if TYPE_CHECKING:
    from .openvino import CompiledTransformer


def for_predictions(
    transformer: PreTrainedModel, dtype: torch.dtype, *, by_openvino: bool = False
) -> PreTrainedModel | CompiledTransformer:
    """Copy a transformer for predictions in `dtype`. The parameters are shared, but for those of int8.

    Raises:
        PelError: OpenVINO is asked for and not installed; or int8 without it, and PyTorch has no oneDNN here.
    """
    fused = _with_fused_attention(transformer)
    if by_openvino:
        from .openvino import CompiledTransformer

        return CompiledTransformer(fused, dtype)
    return int8_copy(fused) if dtype == torch.int8 else fused


def _with_fused_attention(transformer: PreTrainedModel) -> PreTrainedModel:
    """Copy it with the attention that transformers chooses: the fused one if the encoder has it."""
    copied = empty_transformer(type(transformer.config).from_dict(transformer.config.to_dict()))
    copied.load_state_dict(transformer.state_dict(), assign=True)
    return copied.eval()
