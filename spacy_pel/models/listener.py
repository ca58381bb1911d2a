"""The mention tower of `spacy_pel.TransformerListener.v1`: it pools the states that a `transformer` pipe has made of a
Doc, and hands their gradients back to that pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from spacy.tokens import Doc
from thinc.api import Model, PyTorchWrapper_v3, get_torch_default_device
from thinc.types import Floats2d
from torch import nn
from torch.nn.functional import normalize

from ..errors import PelError
from .encoder import tower_module
from .lent_rows import STATES, LentRows, states_of

LISTENER = "listener"


class Projection(nn.Module):
    """From pooled states to the space of the entities.

    Attributes:
        linear: None until `connect` or `set_projection` gives one.
        unit_length: Divide each vector by its length.
    """

    def __init__(self, unit_length: bool) -> None:
        super().__init__()
        self.linear: nn.Linear | None = None
        self.unit_length = unit_length

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Project n pooled states (n, width) to vectors (n, hidden)."""
        assert self.linear is not None
        vectors = self.linear(pooled)
        return normalize(vectors, dim=-1) if self.unit_length else vectors

    def weights_changed(self) -> None:
        """Do nothing: the weights are kept in one form only."""


def make_listening_tower(upstream: str, grad_factor: float, unit_length: bool) -> Model[LentRows, Floats2d]:
    """Make a tower that has no transformer of its own.

    Args:
        upstream: The name of the `transformer` pipe, or "*" for any.
        grad_factor: What the gradients are multiplied by that this pipe gets.
        unit_length: Whether vectors have length 1.

    Returns:
        A model that maps `LentRows` of n mentions to vectors (n, hidden).

    Raises:
        PelError: spacy-transformers is not installed.
    """
    try:
        from spacy_transformers.layers import TransformerListener
        from spacy_transformers.pipeline_component import install_extensions
    except ImportError as error:
        raise PelError(
            "[components.pel_linker.model]: spacy_pel.TransformerListener.v1 needs spacy-transformers: run `python -m "
            f'pip install "spacy-pel[spacy-transformers]"` ({error}).'
        ) from error
    install_extensions()
    listener = TransformerListener(upstream)
    return Model(
        "pel_listening_tower",
        _forward,
        layers=[PyTorchWrapper_v3(Projection(unit_length)), listener],
        refs={LISTENER: listener},
        attrs={"grad_factor": grad_factor, "lent": None},
    )


def listens(model: Model) -> bool:
    """Say whether a bi-encoder reads mentions from the states of a `transformer` pipe."""
    return "upstream" in model.attrs["settings"]


def connect(tower: Model, size: int) -> None:
    """Give a listening tower a new projection to vectors of `size`: the identity where the states of the pipe have that
    size, else random orthonormal rows or columns, which keep lengths and angles as far as that goes.

    Raises:
        PelError: There is no pipe that it listens to, or it is not initialised.
    """
    listener: Any = tower.get_ref(LISTENER)
    if not listener.has_dim("nO"):
        raise PelError(
            f"[components.pel_linker.model]: spacy_pel.TransformerListener.v1 (upstream = {listener.upstream_name!r}) "
            "finds no transformer pipe of spacy-transformers that is initialised: put one of that name before "
            "pel_linker, and initialise the pipeline as a whole; a frozen one needs a `source`."
        )
    width = listener.get_dim("nO")
    weight = torch.eye(size) if width == size else nn.init.orthogonal_(torch.empty(size, width))
    set_projection(tower, {"linear.weight": weight, "linear.bias": torch.zeros(size)})


def set_projection(tower: Model, weights: dict[str, torch.Tensor]) -> None:
    """Give a listening tower the projection whose state dict was saved."""
    module: Any = tower_module(tower)
    size, width = weights["linear.weight"].shape
    module.linear = nn.Linear(width, size)
    module.load_state_dict(weights)
    module.to(get_torch_default_device())


@contextmanager
def lent_states(model: Model, docs: Sequence[Doc]) -> Iterator[None]:
    """For one update, give `docs` the states that the `transformer` pipe has made of them in its own update, if the
    bi-encoder listens to one. At the end the pipe gets the gradients of the mean loss of the mentions: once, also where
    there are none, since it goes backward when its last listener calls it.

    Raises:
        PelError: The pipe has not read these Docs.
    """
    if not listens(model) or not any(len(doc) for doc in docs):
        yield
        return
    tower = model.get_ref("mention_tower")
    before = [getattr(doc._, STATES) for doc in docs]
    try:
        states, backprop = tower.get_ref(LISTENER).begin_update(docs)
    except ValueError as error:
        for doc in docs:
            states_of(doc)
        raise PelError(f"The transformer pipe that pel_linker listens to has read other Docs ({error}).") from error
    tower.attrs["lent"] = lent = _Lent(docs, states, tower.ops.xp)
    try:
        for doc, own in zip(docs, states, strict=True):
            doc._.set(STATES, own)
        yield
        backprop(lent.gradients(tower.attrs["grad_factor"]))
    finally:
        tower.attrs["lent"] = None
        for doc, own in zip(docs, before, strict=True):
            doc._.set(STATES, own)


class _Lent:
    """The gradients, so far, of the states of some Docs."""

    def __init__(self, docs: Sequence[Doc], states: Sequence[Any], xp: Any) -> None:
        self._states, self._xp = states, xp
        self._gradients: list[Any] = [xp.zeros_like(_flat(own)) if _has(own) else None for own in states]
        self._place_of = {id(doc): place for place, doc in enumerate(docs)}
        self._n_mentions = 0

    def add(self, rows: LentRows, d_pooled: Floats2d) -> None:
        """Add the gradients (n, width) of the pooled states of n mentions."""
        self._n_mentions += len(rows)
        for span, own, gradient in zip(rows.spans, rows.pieces, d_pooled, strict=True):
            self._gradients[self._place_of[id(span.doc)]][self._xp.asarray(own)] += gradient / len(own)

    def gradients(self, factor: float) -> list[Any]:
        """Return `factor` times their mean over the mentions, as the pipe takes them; it leaves out empty Docs."""
        from spacy_transformers.data_classes import TransformerData
        from transformers.file_utils import ModelOutput

        scale = factor / max(self._n_mentions, 1)
        return [
            TransformerData(
                model_output=ModelOutput(last_hidden_state=(own * scale).reshape(_last(states).shape)),
                wordpieces=states.wordpieces,
                align=states.align,
            )
            for states, own in zip(self._states, self._gradients, strict=True)
            if own is not None
        ]


def _forward(model: Model, rows: LentRows, is_train: bool) -> tuple[Floats2d, Callable]:
    xp, projection = model.ops.xp, model.layers[0]
    module: Any = tower_module(model)
    width = module.linear.in_features
    flat = {id(span.doc): _flat(states_of(span.doc)) for span in rows.spans}
    if any(own.shape[1] != width for own in flat.values()):
        raise PelError(
            f"The transformer pipe gives states of other than {width} dimensions, which pel_linker was trained with: "
            "put the pipe that it was trained with before it, or train it again."
        )
    pooled = xp.zeros((len(rows), width), dtype="float32")
    for i, (span, own) in enumerate(zip(rows.spans, rows.pieces, strict=True)):
        pooled[i] = flat[id(span.doc)][xp.asarray(own)].mean(0, dtype="float32")
    vectors, backprop = projection(pooled, is_train)

    def backprop_to_states(d_vectors: Floats2d) -> None:
        d_pooled = backprop(d_vectors)
        if model.attrs["lent"] is not None:
            model.attrs["lent"].add(rows, d_pooled)

    return vectors, backprop_to_states


def _has(states: Any) -> bool:
    return "last_hidden_state" in states.model_output


def _last(states: Any) -> Any:
    return states.model_output.last_hidden_state


def _flat(states: Any) -> Any:
    """The last hidden states (p, width) of all word pieces of a Doc, as its alignment counts them."""
    last = _last(states)
    return last.reshape(-1, last.shape[-1])
