"""Transformers that OpenVINO runs, for predictions on CPUs.

This file is the border between PyTorch and OpenVINO.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock, local
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from ..errors import PelError
from .int8 import SMALLEST
from .no_code import reason

LARGEST_WEIGHT = 127
GROUP = 128  # inputs of a product that share a scale, which is found anew for each token
SHAPES = 64  # of products, for which what was compiled is kept

Signature = tuple[tuple[str, int], ...]


class CompiledTransformer:
    """Is called as the transformer it was made of, and by several threads at once. OpenVINO compiles it at its first
    call, and again for inputs of other names or other numbers of dimensions.

    Attributes:
        training: False; it learns nothing.
    """

    training = False

    def __init__(self, transformer: PreTrainedModel, dtype: torch.dtype) -> None:
        """Take a transformer that predicts.

        Args:
            transformer: Its parameters are shared, but for those of int8.
            dtype: Of matrix products: float32, bfloat16 or int8; int8 are the weights, with a scale for each output,
                and the inputs, with one for each `GROUP` of them.

        Raises:
            PelError: OpenVINO is not installed.
        """
        self._openvino = _imported()
        self._transformer, self._dtype = transformer, dtype
        self._compiled: dict[Signature, Any] = {}
        self._compiling = Lock()
        self._of_thread = local()

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings, which PyTorch looks up."""
        return self._transformer.get_input_embeddings()

    def __call__(self, **inputs: torch.Tensor) -> SimpleNamespace:
        """The `last_hidden_state` (n, t, hidden) float32 of a padded batch.

        Raises:
            PelError: OpenVINO cannot read this kind of transformer.
        """
        signature = tuple((name, value.dim()) for name, value in inputs.items())
        arrays = {place: value.contiguous().numpy() for place, value in enumerate(inputs.values())}
        states = self._request(signature, inputs).infer(arrays, share_inputs=True)[0]
        return SimpleNamespace(last_hidden_state=torch.from_numpy(states))

    def _request(self, signature: Signature, inputs: dict[str, torch.Tensor]) -> Any:
        """What this thread asks for inputs like these."""
        own: dict[Any, Any] = self._of_thread.__dict__
        if signature not in own:
            with self._compiling:
                if signature not in self._compiled:
                    self._compiled[signature] = self._compile(inputs)
            own[signature] = self._compiled[signature].create_infer_request()
        return own[signature]

    def _compile(self, inputs: dict[str, torch.Tensor]) -> Any:
        examples = tuple(torch.cat([value, value]) for value in inputs.values())  # of one row, 1 would be taken for all
        module = LastStates(self._transformer, list(inputs))
        try:
            with torch.autocast("cpu", enabled=False), _quiet():
                model = self._openvino.convert_model(module, example_input=examples)
        except Exception as error:
            kind = type(self._transformer).__name__
            raise PelError(
                f'precision = "openvino" of [components.NAME.model] cannot read a {kind} ({reason(error)}); take '
                '"auto".'
            ) from error
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": "bf16" if self._dtype == torch.bfloat16 else "f32",
            "ENABLE_CPU_PINNING": False,  # the workers of a machine would all sit on its first processors
            "CPU_RUNTIME_CACHE_CAPACITY": SHAPES,
        }
        if self._dtype == torch.int8:
            _shrink_weights(model)
            settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = GROUP
        return self._openvino.compile_model(model, "CPU", settings)


class LastStates(nn.Module):
    """A transformer as a function of its inputs `names`, in that order, to its last hidden states, to be exported."""

    def __init__(self, transformer: PreTrainedModel, names: list[str]) -> None:
        super().__init__()
        self.transformer, self.names = transformer, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.transformer(**dict(zip(self.names, inputs, strict=True))).last_hidden_state


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch and transformers say while a transformer is traced."""
    logger = logging.getLogger("transformers.modeling_utils")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _imported() -> Any:
    """OpenVINO, without what would report every import of it to its makers."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except ImportError as error:
        raise PelError(
            'precision = "openvino" of [components.NAME.model] needs OpenVINO: run `python -m pip install '
            f'"spacy-pel[openvino]"` ({error}).'
        ) from error
    return openvino


def _shrink_weights(model: Any) -> None:
    """Replace the weights of all products of `model` by integers and a scale for each output."""
    operations: Any = import_module("openvino.opset13")
    for product in model.get_ops():
        second: Any = product.input_value(1).get_node() if product.get_type_name() == "MatMul" else None
        if second is None or second.get_type_name() != "Constant":
            continue
        weight = second.data
        axis = 1 if product.get_attributes()["transpose_b"] else 0
        scales = (np.abs(weight).max(axis, keepdims=True).clip(SMALLEST) / LARGEST_WEIGHT).astype(np.float32)
        integers = operations.constant(np.round(weight / scales).astype(np.int8))
        restored = operations.multiply(operations.convert(integers, "f32"), operations.constant(scales))
        product.input(1).replace_source_output(restored.output(0))
