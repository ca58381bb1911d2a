"""`spacy_pel.AdamW.v1` and `spacy_pel.warmup_linear.v1`, for `[training.optimizer]`: as transformers are fine-tuned."""

from collections.abc import Iterable
from typing import Any

import torch
from thinc.api import Optimizer, get_array_module, warmup_linear, xp2torch

from ..checks import check_count, check_number

SECTION = "[training.optimizer]"
LARGEST_DECAY = 1 - 1e-9  # 1 would keep the first gradient for ever


class AdamW(Optimizer):
    """PyTorch's AdamW where spaCy wants an optimizer of thinc's.

    thinc's Adam does not do all that transformers are fine-tuned with. Here arrays of one dimension (biases and
    LayerNorms) do not decay. ε is added to the corrected root of the second moment, as in Kingma & Ba 2015; thinc's is
    up to 1 / sqrt(1 - β2) times larger in the first steps. And `pel_linker` clips its gradient by its global norm,
    where thinc clips each array by itself; gradients of other pipes are not clipped.

    Attributes:
        max_gradient_norm: See `__init__`.
    """

    def __init__(
        self,
        learn_rate: Any,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        max_gradient_norm: float | None = 1.0,
    ) -> None:
        """Make an optimizer with moments of 0.

        Args:
            learn_rate: A number or a schedule.
            beta1: The decay of the first moment.
            beta2: The decay of the second moment.
            eps: ε.
            weight_decay: The share of a weight that a step at a rate of 1 takes away.
            max_gradient_norm: What the gradient of a `pel_linker` is clipped to, over all its parameters; None: no
                clipping.

        Raises:
            PelError: A number is out of its range.
        """
        check_number(
            SECTION, "max_gradient_norm", max_gradient_norm, over=0, optional=True, hint=" (null) for no clipping"
        )
        for key, decay in (("beta1", beta1), ("beta2", beta2)):
            check_number(SECTION, key, decay, least=0, most=LARGEST_DECAY)
        check_number(SECTION, "eps", eps, over=0)
        check_number(SECTION, "weight_decay", weight_decay, least=0)
        if isinstance(learn_rate, str) or not isinstance(learn_rate, Iterable) or learn_rate == []:
            check_number(SECTION, "learn_rate", learn_rate, least=0)
        super().__init__(
            learn_rate, L2=weight_decay, beta1=beta1, beta2=beta2, eps=eps, grad_clip=0.0, use_averages=False
        )
        self.max_gradient_norm = max_gradient_norm
        self._of: dict[tuple[int, str], torch.optim.AdamW] = {}  # each has one array of weights and its moments

    def __call__(self, key: tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> tuple[Any, Any]:
        """Update `weights` and set `gradient` to zero, both in place, and return the two."""
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
        """Make the optimizer of one array, with moments of 0."""
        decay = self.L2 if weights.ndim > 1 else 0.0
        only = [torch.nn.Parameter(weights)]
        return torch.optim.AdamW(only, betas=(self.b1, self.b2), eps=self.eps, weight_decay=decay, fused=True)


def make_warmup_linear(initial_rate: float, total_steps: int, warmup_share: float = 0.1) -> Iterable[float]:
    """Make thinc's `warmup_linear.v1`, its warm-up given as a share of `total_steps`.

    Args:
        initial_rate: The highest rate, at the end of the warm-up.
        total_steps: The step at which the rate is 0.
        warmup_share: The share of the steps in which the rate rises.

    Raises:
        PelError: total_steps is under 1, warmup_share is no share, or initial_rate under 0.
    """
    where = f"{SECTION[:-1]}.learn_rate]"
    check_count(where, "total_steps", total_steps, least=1, hint=" (0 would mean a rate of 0 throughout)")
    check_number(where, "warmup_share", warmup_share, least=0, most=1)
    check_number(where, "initial_rate", initial_rate, least=0)
    return warmup_linear(initial_rate, round(warmup_share * total_steps), total_steps)
