"""`spacy_pel.AdamW.v1` and `spacy_pel.warmup_linear.v1`, for `[training.optimizer]`: as transformers are fine-tuned."""

from collections.abc import Iterable
from typing import Any

from thinc.api import Optimizer, warmup_linear


class AdamW(Optimizer):
    """thinc's Adam with decoupled weight decay, and two things that it does not have: parameters of one dimension
    (biases, LayerNorm) do not decay, and `pel_linker` clips its gradients by their norm over all parameters, where
    thinc clips each tensor by itself. Parameters of other pipes are not clipped.

    max_gradient_norm: None for no clipping.
    """

    def __init__(self, learn_rate: Any, *, max_gradient_norm: float | None, **settings: Any) -> None:
        super().__init__(learn_rate, grad_clip=0.0, use_averages=False, L2_is_weight_decay=True, **settings)
        self.max_gradient_norm = max_gradient_norm

    def __call__(self, key: tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> tuple[Any, Any]:
        decay = self.L2
        self.L2 = decay if weights.ndim > 1 else 0.0
        try:
            return super().__call__(key, weights, gradient, lr_scale=lr_scale)
        finally:
            self.L2 = decay


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
