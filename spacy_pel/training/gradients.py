"""The gradients that batches have added up, made those of a mean, and clipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from ..errors import PelError


class Update(NamedTuple):
    """An update of the weights: the mean loss of its mentions and the norm of its gradient before it was clipped."""

    loss: float
    gradient_norm: float


@contextmanager
def dropped_on_error(drop: Callable[[], None]) -> Iterator[None]:
    """Call `drop` where the block raises, or is interrupted: what it has added to the gradients is a part of a batch,
    of which the next update must know nothing."""
    try:
        yield
    except BaseException:
        drop()
        raise


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
