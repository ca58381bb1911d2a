"""A tower: a Hugging Face transformer in a thinc layer, from token rows to their states and on to pooled vectors.

This file is the border between thinc and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3, get_torch_default_device, torch2xp, xp2torch
from thinc.shims import PyTorchShim
from thinc.types import Floats2d
from torch import nn
from transformers import PreTrainedModel

from ..checks import refused
from ..kb.several import Several, vector_places
from .pooling import Pooling
from .precision import BY_OPENVINO, compute_dtype
from .predictions import for_predictions
from .several_pooling import Codes, FirstTokens
from .side_by_side import side_by_side
from .token_rows import PaddedBatch, Rows

if TYPE_CHECKING:
    from .openvino import CompiledTransformer

SUM, NORMALISED = LAYERS = ("sum", "normalised")
TOKENS_AT_ONCE = {"cpu": 4096, "cuda": 65536}
_COPYING = Lock()


class Tower(nn.Module):
    """A transformer and the pooling of its last hidden states.

    Attributes:
        transformer: None until `set_transformer` gives one.
        pooling: States to vectors.
        precision: See `spacy_pel.models.precision.compute_dtype`.
        layer: What a step is added to: the "sum" of the input embeddings, or that behind its LayerNorm and dropout,
            "normalised".
    """

    def __init__(self, pooling: Pooling | FirstTokens | Codes, precision: str) -> None:
        super().__init__()
        self.layer = SUM
        self.transformer: PreTrainedModel | None = None
        self.pooling = pooling
        self.precision = precision
        # For predictions; no submodules, since nothing of them is learnt, moved or saved
        self._copies: dict[str, PreTrainedModel | CompiledTransformer] = {}

    def train(self, mode: bool = True) -> Tower:
        """Do nothing: thinc calls this around every prediction, also while another thread is in one. Dropout is on
        where weights get gradients (see `states`), which PyTorch knows for each thread."""
        return self

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, step: torch.Tensor | None, spots: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Encode a padded batch to one vector a row, (n, hidden), or as many as the pooling keeps, or one a spot,
        (k, hidden). See `states` and `Pooling` for the arguments."""
        states = self.states(ids, mask, step)
        if spots is None:
            return self.pooling(states, ids, mask)
        assert isinstance(self.pooling, Pooling)
        return self.pooling.of_spots(states, spots)

    def states(
        self, ids: torch.Tensor, mask: torch.Tensor, step: torch.Tensor | None, **inputs: torch.Tensor
    ) -> torch.Tensor:
        """Encode a padded batch to the state of every token.

        Args:
            ids: (n, t), token ids.
            mask: (n, t), True at real tokens; or (n, t, t), at those that each token sees.
            step: None, or (n, t, hidden), added to the `layer`: to the word embeddings, since position and segment
                embeddings are constants of their sum, or behind the LayerNorm.
            inputs: What else the transformer is given: segment ids, positions.

        Returns:
            (n, t, hidden), the last hidden states, in the dtype that the tower computes in.
        """
        training = torch.is_grad_enabled()
        dtype = compute_dtype(self.precision, ids.device, training=training)
        transformer: Any = self._transformer(dtype, predicts=not training and ids.device.type == "cpu")
        learns = training and not self.is_frozen
        if transformer.training != learns:
            transformer.train(learns)
        embedded = transformer.get_input_embeddings()(ids)
        behind = None
        if step is not None and self.layer == SUM:
            embedded = embedded + step
        elif step is not None:
            behind = step
        autocast = torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)
        with autocast, _added_behind(transformer, behind):
            return transformer(inputs_embeds=embedded, attention_mask=mask, **inputs).last_hidden_state

    @property
    def is_frozen(self) -> bool:
        """Whether no weight has gradients."""
        return not any(weight.requires_grad for weight in self.parameters())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_copies": {}}  # the weights of int8 cannot be copied

    def weights_changed(self) -> None:
        """Note that the weights are others: copies for predictions are made again when they are needed."""
        self._copies = {}

    def _transformer(self, dtype: torch.dtype, *, predicts: bool) -> PreTrainedModel | CompiledTransformer:
        assert self.transformer is not None
        if not predicts:
            return self.transformer
        copies, precision = self._copies, self.precision  # another thread may put an empty one in its place
        if precision not in copies:
            with _COPYING:
                if precision not in copies:
                    copies[precision] = for_predictions(self.transformer, dtype, by_openvino=precision in BY_OPENVINO)
        return copies[precision]


@contextmanager
def _added_behind(transformer: PreTrainedModel, step: torch.Tensor | None) -> Iterator[None]:
    """Add `step` to what the embedding module of `transformer` gives."""
    if step is None:
        yield
        return
    module: Any = transformer.embeddings
    hook = module.register_forward_hook(lambda _module, _inputs, embedded: embedded + step)
    try:
        yield
    finally:
        hook.remove()


def set_layer(tower: Model, layer: str, section: str) -> None:
    """Choose what a step is added to, one of `LAYERS`.

    Args:
        tower: With a transformer.
        layer: One of `LAYERS`.
        section: Of the config, for the message.

    Raises:
        PelError: The transformer has no embedding module.
    """
    module = tower_module(tower)
    if layer == NORMALISED and not hasattr(module.transformer, "embeddings"):
        kind = type(module.transformer).__name__
        raise refused(section, "layer", layer, f'make it "{SUM}": a {kind} has no embeddings to step on behind')
    module.layer = layer


def make_tower(module: Tower) -> Model[Rows, Any]:
    """Put a tower without a transformer (see `set_transformer`) into a thinc layer.

    Returns:
        A model that maps `Rows` of n things to vectors (n, hidden), or to `Several` each where the pooling keeps
        several. Its backprop takes the gradient of all vectors (v, hidden) and returns that of every batch's
        embeddings, at the `layer` of the tower: a list of arrays (rows of the batch, its longest row, hidden), in the
        order of `Rows.batches`; None for a batch with a step.
    """
    transformer: Model = PyTorchWrapper_v3(
        module,
        convert_inputs=_to_torch,
        convert_outputs=_from_torch,
        serialize_model=_refuse,
        deserialize_model=_refuse,
    )
    return Model("pel_tower", _forward, layers=[transformer], attrs={"pad": 0})


def set_transformer(tower: Model, transformer: PreTrainedModel, pad: int, markers: tuple[int, int]) -> None:
    """Give a tower its transformer.

    Args:
        tower: From `make_tower`.
        transformer: A Hugging Face encoder.
        pad: The token id of the padding.
        markers: The token ids of `[Ms]` and `[Me]`.
    """
    module = tower_module(tower)
    module.transformer = transformer
    if isinstance(module.pooling, Pooling):
        module.pooling.markers = markers
    module.weights_changed()
    module.to(get_torch_default_device())
    tower.attrs["pad"] = pad


def tower_module(tower: Model) -> Tower:
    """Return the PyTorch module of a tower."""
    return _shim(tower.layers[0])._model


def predicts_as_it_learns(tower: Model) -> bool:
    """Say whether `tower` predicts what it gives while it learns: it has no dropout and the same number format for
    both."""
    module = tower_module(tower)
    device = _shim(tower.layers[0]).device
    learns, predicts = (compute_dtype(module.precision, device, training=one) for one in (True, False))
    has_dropout = any(isinstance(layer, nn.Dropout) and layer.p > 0 for layer in module.modules())
    return not has_dropout and learns == predicts and module.precision not in BY_OPENVINO


def _shim(layer: Model) -> PyTorchShim:
    shim = layer.shims[0]
    assert isinstance(shim, PyTorchShim)
    return shim


def token_batches(tower: Model, rows: Rows) -> Iterator[tuple[np.ndarray, PaddedBatch]]:
    """Yield the padded batches in which `tower` encodes `rows`, each with the numbers of its vectors."""
    device = _shim(tower.layers[0]).device.type
    return rows.batches(TOKENS_AT_ONCE.get(device, TOKENS_AT_ONCE["cpu"]), tower.attrs["pad"])


def _in_threads(tower: Model) -> bool:
    """Say whether a tower predicts several batches at once: on a CPU, by PyTorch."""
    return _shim(tower.layers[0]).device.type == "cpu" and tower_module(tower).precision not in BY_OPENVINO


def _forward(model: Model, rows: Rows, is_train: bool) -> tuple[Floats2d | Several, Callable]:
    xp = model.ops.xp
    counts = tower_module(model).pooling.counts(rows.lengths)
    batches = list(token_batches(model, rows))
    encode = partial(model.layers[0], is_train=is_train)
    padded = [batch for _, batch in batches]
    encoded = map(encode, padded) if is_train or not _in_threads(model) else side_by_side(encode, padded)
    outputs = [
        (xp.asarray(vector_places(indices, counts)), *output)
        for (indices, _), output in zip(batches, encoded, strict=True)
    ]
    total = len(rows) if counts is None else int(counts.sum())
    vectors = xp.empty((total, outputs[0][1].shape[1]), dtype=outputs[0][1].dtype) if outputs else xp.empty((0, 0))
    for places, output, _ in outputs:
        vectors[places] = output

    def backprop(d_vectors: Floats2d) -> list:
        return [backprop_batch(d_vectors[places]) for places, _, backprop_batch in outputs]

    return vectors if counts is None else Several(vectors, counts), backprop


def _to_torch(model: Model, batch: PaddedBatch, is_train: bool) -> tuple[ArgsKwargs, Callable]:
    device = _shim(model).device
    ids = torch.as_tensor(batch.ids, device=device)
    mask = torch.as_tensor(batch.mask, device=device)
    step = None if batch.step is None else xp2torch(batch.step, device=device)
    if is_train and step is None:  # a leaf of zeros: its gradient is that of the input embeddings
        words = _shim(model)._model.transformer.get_input_embeddings().weight
        step = torch.zeros(*ids.shape, words.shape[1], dtype=words.dtype, device=device, requires_grad=True)

    def to_step_gradient(d_inputs: ArgsKwargs) -> Any:
        gradient = d_inputs.args[2]
        return None if gradient is None else torch2xp(gradient)

    spots = None if batch.spots is None else torch.as_tensor(batch.spots, device=device)
    return ArgsKwargs(args=(ids, mask, step, spots), kwargs={}), to_step_gradient


def _from_torch(model: Model, inputs_outputs: tuple, is_train: bool) -> tuple[Any, Callable]:
    _, vectors = inputs_outputs

    def to_torch_gradient(d_vectors: Floats2d) -> ArgsKwargs:
        return ArgsKwargs(args=((vectors,),), kwargs={"grad_tensors": xp2torch(d_vectors)})

    return torch2xp(vectors.detach()), to_torch_gradient


def _refuse(*_: Any) -> Any:
    raise NotImplementedError("Towers are written by `spacy_pel.models.storage.save` (safetensors, JSON), not pickled.")


def has_encoder(model: Model) -> bool:
    """Say whether a bi-encoder or cross-encoder has weights."""
    return model.attrs["row_builder"] is not None
