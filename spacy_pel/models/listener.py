"""The mention tower of `spacy_pel.TransformerListener.v1`: it pools the states that a transformer pipe has made of a
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
from .lender import Lent
from .lenders import STATES, make_lenders, pieces_of
from .lent_rows import LentRows


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
        upstream: The name of the transformer pipe, or "*" for any.
        grad_factor: What the gradients are multiplied by that this pipe gets.
        unit_length: Whether vectors have length 1.

    Returns:
        A model that maps `LentRows` of n mentions to vectors (n, hidden).

    Raises:
        PelError: No package is installed that has such a pipe.
    """
    lenders = make_lenders(upstream)
    return Model(
        "pel_listening_tower",
        _forward,
        layers=[PyTorchWrapper_v3(Projection(unit_length)), *(lender.listener for lender in lenders)],
        attrs={"upstream": upstream, "grad_factor": grad_factor, "lenders": lenders, "gradients": None},
    )


def listens(model: Model) -> bool:
    """Say whether a bi-encoder reads mentions from the states of a transformer pipe."""
    return "upstream" in model.attrs["settings"]


def is_listening(tower: Model) -> bool:
    """Say whether a tower is one of `make_listening_tower`."""
    return "lenders" in tower.attrs


def keep_lenders(model: Model, before: Model) -> None:
    """Let the bi-encoder `model` listen by the layers of the one `before` it, if that listens to pipes of the same
    name: the transformer pipe of a pipeline knows these."""
    if not (listens(model) and listens(before)):
        return
    tower, own = (one.get_ref("mention_tower") for one in (model, before))
    if tower.attrs["upstream"] == own.attrs["upstream"]:
        tower.attrs["lenders"] = own.attrs["lenders"]
        tower.layers[1:] = own.layers[1:]


def connect(tower: Model, width: int, size: int) -> None:
    """Give a listening tower a new projection of states (n, width) to vectors (n, size): the identity where the two are
    of one size, else random orthonormal rows or columns, which keep lengths and angles as far as that goes."""
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
    """For one update, give `docs` the states that a transformer pipe has made of them in its own update, if the
    bi-encoder listens to one. At the end the pipe gets the gradients of the mean loss of the mentions: once, also where
    there are none, since it goes backward when its last listener calls it. Docs of a pipe that makes no update keep
    the states that they have.

    Raises:
        PelError: The pipe has read other Docs.
    """
    if not listens(model) or not any(len(doc) for doc in docs):
        yield
        return
    tower = model.get_ref("mention_tower")
    if (lent := _lent(tower, docs)) is None:
        yield
        return
    before = [getattr(doc._, STATES) for doc in docs]
    try:
        _set_states(docs, lent.outputs)
        tower.attrs["gradients"] = gradients = _Gradients(docs, tower.ops.xp)
        yield
        lent.give_back(gradients.of_the_mean(tower.attrs["grad_factor"]))
    finally:
        tower.attrs["gradients"] = None
        _set_states(docs, before)


def _lent(tower: Model, docs: Sequence[Doc]) -> Lent | None:
    """What the first pipe has lent that has made an update; None if none has."""
    try:
        return next((own for lender in tower.attrs["lenders"] if (own := lender.lend(docs)) is not None), None)
    except ValueError as error:
        raise PelError(f"The transformer pipe that pel_linker listens to has read other Docs ({error}).") from error


def _set_states(docs: Sequence[Doc], outputs: Sequence[Any]) -> None:
    for doc, output in zip(docs, outputs, strict=True):
        doc._.set(STATES, output)


class _Gradients:
    """Those, so far, of the states that some Docs have."""

    def __init__(self, docs: Sequence[Doc], xp: Any) -> None:
        self._xp = xp
        states = [pieces_of(doc).states for doc in docs]
        self._of_docs: list[Any] = [xp.zeros(own.shape, dtype=own.dtype) for own in states]
        self._place_of = {id(doc): place for place, doc in enumerate(docs)}
        self._n_mentions = 0

    def add(self, rows: LentRows, d_pooled: Floats2d) -> None:
        """Add the gradients (n, width) of the pooled states of n mentions."""
        self._n_mentions += len(rows)
        for span, own, gradient in zip(rows.spans, rows.pieces, d_pooled, strict=True):
            self._of_docs[self._place_of[id(span.doc)]][self._xp.asarray(own)] += gradient / len(own)

    def of_the_mean(self, factor: float) -> list[Any]:
        """Return for each Doc (p, width) `factor` times their mean over the mentions."""
        return [own * (factor / max(self._n_mentions, 1)) for own in self._of_docs]


def _forward(model: Model, rows: LentRows, is_train: bool) -> tuple[Floats2d, Callable]:
    xp, projection = model.ops.xp, model.layers[0]
    module: Any = tower_module(model)
    width = module.linear.in_features
    states = {id(span.doc): pieces_of(span.doc).states for span in rows.spans}
    if any(own.shape[1] != width for own in states.values()):
        raise PelError(
            f"The transformer pipe gives states of other than {width} dimensions, which pel_linker was trained with: "
            "put the pipe that it was trained with before it, or train it again."
        )
    pooled = xp.zeros((len(rows), width), dtype="float32")
    for i, (span, own) in enumerate(zip(rows.spans, rows.pieces, strict=True)):
        pooled[i] = states[id(span.doc)][xp.asarray(own)].mean(0, dtype="float32")
    vectors, backprop = projection(pooled, is_train)

    def backprop_to_states(d_vectors: Floats2d) -> None:
        d_pooled = backprop(d_vectors)
        if model.attrs["gradients"] is not None:
            model.attrs["gradients"].add(rows, d_pooled)

    return vectors, backprop_to_states
