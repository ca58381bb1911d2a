"""`spacy_pel.AdamW.v1` and `spacy_pel.warmup_linear.v1`, for `[training.optimizer]`: as transformers are fine-tuned."""

import math
from collections.abc import Iterable
from typing import Any

from thinc.api import Optimizer, warmup_linear


class AdamW(Optimizer):
    """thinc's Adam with decoupled weight decay, and with what it does not have: arrays of one dimension (the biases and
    LayerNorms of transformers) do not decay; ε is added to the corrected root of the second moment, as in Kingma & Ba
    2015, where thinc's is up to 1 / sqrt(1 - β2) times larger in the first steps; and `pel_linker` clips its gradient
    by its global norm, where thinc clips each array by itself. Gradients of other pipes are not clipped.

    max_gradient_norm: None for no clipping.
    """

    def __init__(self, learn_rate: Any, *, max_gradient_norm: float | None, **settings: Any) -> None:
        super().__init__(learn_rate, grad_clip=0.0, use_averages=False, L2_is_weight_decay=True, **settings)
        self.max_gradient_norm = max_gradient_norm

    def __call__(self, key: tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> tuple[Any, Any]:
        decay, eps = self.L2, self.eps
        self.L2 = decay if weights.ndim > 1 else 0.0
        self.eps = eps * math.sqrt(1 - self.b2 ** (self.nr_update[key] + 1))  # thinc adds it before the correction
        try:
            return super().__call__(key, weights, gradient, lr_scale=lr_scale)
        finally:
            self.L2, self.eps = decay, eps


def make_adamw(
    learn_rate: Any,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    max_gradient_norm: float | None = 1.0,
) -> AdamW:
    """`spacy_pel.AdamW.v1`: see `AdamW`. learn_rate: a number or a schedule."""
    return AdamW(learn_rate, beta1=beta1, beta2=beta2, eps=eps, L2=weight_decay, max_gradient_norm=max_gradient_norm)


def make_warmup_linear(initial_rate: float, total_steps: int, warmup_share: float = 0.1) -> Iterable[float]:
    """`spacy_pel.warmup_linear.v1`: thinc's `warmup_linear.v1`, its warm-up given as a share of `total_steps`."""
    return warmup_linear(initial_rate, round(warmup_share * total_steps), total_steps)
