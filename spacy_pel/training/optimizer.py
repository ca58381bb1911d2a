"""`spacy_pel.AdamW.v1` and `spacy_pel.warmup_linear.v1`, for `[training.optimizer]`: as transformers are fine-tuned."""

from collections.abc import Iterable
from typing import Any

import torch
from thinc.api import Optimizer, get_array_module, warmup_linear, xp2torch

from ..errors import PelError


class AdamW(Optimizer):
    """PyTorch's AdamW where spaCy wants an optimizer of thinc's, because thinc's Adam does not do all that transformers
    are fine-tuned with: arrays of one dimension (their biases and LayerNorms) do not decay; ε is added to the corrected
    root of the second moment, as in Kingma & Ba 2015, where thinc's is up to 1 / sqrt(1 - β2) times larger in the first
    steps; and `pel_linker` clips its gradient by its global norm, where thinc clips each array by itself. Gradients of
    other pipes are not clipped.

    max_gradient_norm: None for no clipping.
    """

    def __init__(self, learn_rate: Any, *, max_gradient_norm: float | None, **settings: Any) -> None:
        super().__init__(learn_rate, grad_clip=0.0, use_averages=False, **settings)
        self.max_gradient_norm = max_gradient_norm
        self._of: dict[tuple[int, str], torch.optim.AdamW] = {}  # each has one array of weights and its moments

    def __call__(self, key: tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> tuple[Any, Any]:
        """Update `weights` and set `gradient` to zero, both in place. RETURNS: the two."""
        xp = get_array_module(weights)
        own, slope = xp.ascontiguousarray(weights), xp.ascontiguousarray(gradient)  # the fused step goes by no strides
        known = self._of.get(key)
        if known is None or known.param_groups[0]["params"][0].shape != weights.shape:
            known = self._of[key] = self._new(xp2torch(own))
        group = known.param_groups[0]
        group["lr"] = self.learn_rate * lr_scale
        group["params"][0].data, group["params"][0].grad = xp2torch(own), xp2torch(slope)
        known.step()
        if own is not weights:
            weights[...] = own
        gradient.fill(0)
        return weights, gradient

    def _new(self, weights: torch.Tensor) -> torch.optim.AdamW:
        """For one array, with moments of 0."""
        decay = self.L2 if weights.ndim > 1 else 0.0
        only = [torch.nn.Parameter(weights)]
        return torch.optim.AdamW(only, betas=(self.b1, self.b2), eps=self.eps, weight_decay=decay, fused=True)


def make_adamw(
    learn_rate: Any,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    max_gradient_norm: float | None = 1.0,
) -> AdamW:
    """`spacy_pel.AdamW.v1`: see `AdamW`. learn_rate: a number or a schedule."""
    if max_gradient_norm is not None and max_gradient_norm <= 0:
        raise PelError(
            f"[training.optimizer]: max_gradient_norm = {max_gradient_norm} is no norm; make it more than 0, or null "
            "for no clipping."
        )
    return AdamW(learn_rate, beta1=beta1, beta2=beta2, eps=eps, L2=weight_decay, max_gradient_norm=max_gradient_norm)


def make_warmup_linear(initial_rate: float, total_steps: int, warmup_share: float = 0.1) -> Iterable[float]:
    """`spacy_pel.warmup_linear.v1`: thinc's `warmup_linear.v1`, its warm-up given as a share of `total_steps`."""
    if total_steps < 1 or not 0 <= warmup_share <= 1:
        raise PelError(
            f"[training.optimizer.learn_rate]: total_steps = {total_steps} must be at least 1 (0 would mean a rate of "
            f"0 throughout) and warmup_share = {warmup_share} between 0 and 1."
        )
    return warmup_linear(initial_rate, round(warmup_share * total_steps), total_steps)
