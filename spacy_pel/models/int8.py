"""Linear layers whose products are of small integers, for predictions on CPUs."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from ..errors import PelError

ModuleT = TypeVar("ModuleT", bound=nn.Module)

LARGEST_WEIGHT = 63
LARGEST_INPUT = 127
ZERO = 128  # where 0 is among the inputs, which are unsigned: to add it to an int8, as one, wraps
SMALLEST = 1e-12  # of what is divided by


class Int8Linear(nn.Module):
    """An `nn.Linear` with weights of 7 bits, a scale for each output, and inputs of 8, a scale for each token.

    With 7 bits a sum of two products stays below 2^15, where processors without VNNI would cut it off, so all give the
    same. With a scale for each token, not for a batch, a row's states do not depend on the rows beside it.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.scales = weight.abs().amax(1).clamp(min=SMALLEST) / LARGEST_WEIGHT
        self.weight = torch.ops.onednn.qlinear_prepack((weight / self.scales[:, None]).round().to(torch.int8), None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map (…, inputs) to (…, outputs), float32."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True)).clamp_(min=SMALLEST)
        integers = (rows * (LARGEST_INPUT / largest)).round_().to(torch.int8).view(torch.uint8).add_(ZERO)
        products = torch.ops.onednn.qlinear_pointwise(
            integers, 1.0, ZERO, self.weight, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return products.mul_(largest / LARGEST_INPUT).add_(self.bias).view(*inputs.shape[:-1], -1)


def int8_copy(module: ModuleT) -> ModuleT:
    """Copy `module` with each `nn.Linear` in it as an `Int8Linear` of its weights. All other parameters are shared.

    Raises:
        PelError: PyTorch has no oneDNN here.
    """
    if not torch.backends.mkldnn.is_available():
        raise PelError(
            'precision = "int8" of [components.NAME.model] needs oneDNN, which this build of PyTorch lacks; take '
            '"auto".'
        )
    copied = copy.deepcopy(module, {id(parameter): parameter for parameter in module.parameters()})
    for parent in list(copied.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))
    return copied
