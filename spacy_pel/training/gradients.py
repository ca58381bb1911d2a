"""Trainings that add up the gradients of batches until an update, which takes those of the mean, clipped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from thinc.api import Model

from ..errors import PelError
from .waiting import waiting_for_mentions, waiting_for_rate


class Update(NamedTuple):
    """An update of the weights: the mean loss of its mentions and the norm of its gradient before it was clipped."""

    loss: float
    gradient_norm: float


class Session:
    """Updates a model by the gradients of mentions.

    Attributes:
        model: The model.
        n_mentions: How many have given gradients since the latest update.
        latest: The latest update; None before the first, and after a batch in which no mention contributed a loss.
        rate_comes: What is told at each update whether the learn rate is over 0.
    """

    def __init__(self, model: Model, name: str) -> None:
        """Begin for `model`. name: Of the factory, for what is warned of."""
        self.model = model
        self.latest: Update | None = None
        self.rate_comes = waiting_for_rate(name)
        self._learns = waiting_for_mentions(name)
        self.drop_gradients()  # what a training before this one has left

    def modules(self) -> list[torch.nn.Module]:
        """What has the parameters of the model."""
        raise NotImplementedError

    def drop_gradients(self) -> None:
        """Forget what has been accumulated since the latest update."""
        self.n_mentions, self._loss = 0, 0.0
        for module in self.modules():
            module.zero_grad()

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        """Drop all gradients where the block raises, or is interrupted: what it has added to them is a part of a batch,
        of which the next update must know nothing."""
        try:
            yield
        except BaseException:
            self.drop_gradients()
            raise

    def added(self, n_mentions: int, loss: float) -> None:
        """Note that the gradients of `n_mentions` have been added, and the sum of their losses."""
        self.n_mentions, self._loss = self.n_mentions + n_mentions, self._loss + loss

    def finish_gradients(self, max_norm: float | None) -> bool:
        """Make of the gradients that have been accumulated those of the mean loss over all their mentions, in however
        many batches they came, and clip them to `max_norm` over all parameters (None: not at all).

        Returns:
            Whether there are any.

        Raises:
            PelError: If they are not finite. They are dropped then.
        """
        self._learns(self.n_mentions > 0)
        if not self.n_mentions:
            self.latest = None
            return False
        with self.dropped_on_error():
            norm = finish(self.modules(), self.n_mentions, max_norm)
        self.latest = Update(self._loss / self.n_mentions, norm)
        self.n_mentions, self._loss = 0, 0.0
        return True


def finish(modules: Iterable[torch.nn.Module], n: int, max_norm: float | None) -> float:
    """Divide the gradients of all parameters by `n`, and clip them to `max_norm` (None: not at all) over all of them.

    Returns:
        The norm of the mean before it was clipped.

    Raises:
        PelError: It is not finite.
    """
    gradients = [p.grad for module in modules for p in module.parameters() if p.grad is not None]
    norms = torch.stack(torch._foreach_norm(gradients)).double()
    norm = norms.square().sum().sqrt().item() / n
    if not math.isfinite(norm):
        raise PelError("The gradient is not finite: training has diverged; lower [training.optimizer] learn_rate.")
    scale = min(1.0, max_norm / norm) if max_norm and norm else 1.0
    torch._foreach_mul_(gradients, scale / n)
    return norm
