"""What parts of a score weigh where a mention means one of its candidates: a conditional logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

STEPS = 200
SPREAD, FREEDOM = 0.25, 3.0  # of the prior of the logarithm of a weight


class FittedChoice(NamedTuple):
    """What `fit_choice` gives.

    Attributes:
        scale: a.
        weights: Of the features but the first.
    """

    scale: float
    weights: list[float]


def fit_choice(features: Sequence[np.ndarray], right: Sequence[np.ndarray], prior: Sequence[float]) -> FittedChoice:
    """The most probable weights, where a mention means a candidate with a probability in proportion to
    exp(a · (first feature + weights · others)), and none of them in proportion to exp(b): a conditional logit (McFadden
    1974) with an outside option. a, b and the weights, which are positive, are fitted by L-BFGS.

    The logarithm of each weight has a Student's t prior around that of `prior`, with the scale `SPREAD` and `FREEDOM`
    degrees of freedom: few mentions hardly move a weight, and many move it as far as they say.

    Args:
        features: (c, 1 + p) of the c candidates of each mention.
        right: (c,) bool, which of them are right; at least one of one mention.
        prior: (p,), the weights that stand where the mentions say nothing; over 0.
    """
    owner = torch.as_tensor(np.repeat(np.arange(len(right)), list(map(len, right))))
    is_right = torch.as_tensor(np.concatenate(right))
    table = torch.as_tensor(np.concatenate(features), dtype=torch.float64)
    without = torch.as_tensor([not own.any() for own in right])
    table[:, 0] -= table[:, 0].mean()  # b takes it up; a number far from 0 would hold the fit up
    scale = 1 / float(table[:, 0].std(correction=0) + 1e-9)
    start = torch.tensor([scale, *prior], dtype=torch.float64).log()
    logs = start.clone().requires_grad_()
    outside = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs, outside], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scale, *weights = logs.exp()
        logits = scale * (table @ torch.stack([torch.ones_like(scale), *weights]))
        everything = torch.logaddexp(_log_sums(logits, owner, len(right)), outside)
        good = torch.where(without, outside, _log_sums(logits[is_right], owner[is_right], len(right)))
        away = (FREEDOM + 1) / 2 * torch.log1p(((logs - start)[1:] / SPREAD).square() / FREEDOM).sum()
        value = (everything - good).mean() + away / len(right)
        value.backward()
        return value

    optimizer.step(loss)
    scale, *weights = logs.detach().exp().tolist()
    return FittedChoice(scale, weights)


def _log_sums(values: torch.Tensor, owner: torch.Tensor, n: int) -> torch.Tensor:
    """log Σ exp of the `values` (m,) of each `owner` (m,), (n,); a very small number for one without any."""
    most = torch.full((n,), -1e9, dtype=values.dtype).scatter_reduce(0, owner, values.detach(), "amax")
    sums = torch.zeros(n, dtype=values.dtype).index_add(0, owner, (values - most[owner]).exp())
    return most + sums.clamp_min(1e-300).log()
