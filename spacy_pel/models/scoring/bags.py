"""Several vectors of each of n things as one padded tensor, with a mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from thinc.api import get_torch_default_device

from ...kb.several import Several, flat


@dataclass(frozen=True)
class Bags:
    """The vectors of n things, k or fewer each.

    Attributes:
        vectors: (n, k, d); what stands at padding means nothing.
        mask: (n, k) bool, True at vectors.
    """

    vectors: torch.Tensor
    mask: torch.Tensor

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, numbers: np.ndarray) -> Bags:
        """Those of the things with these `numbers` (m,)."""
        return Bags(self.vectors[numbers], self.mask[numbers])

    @classmethod
    def of(cls, vectors: torch.Tensor, counts: np.ndarray) -> Bags:
        """Pad `vectors` (v, d), of which the n things have as many as `counts` (n,) says. Gradients pass."""
        starts, own = np.cumsum(counts) - counts, np.arange(max(counts.max(initial=0), 1))
        mask = own < counts[:, None]
        places = torch.as_tensor(np.where(mask, starts[:, None] + own, 0), device=vectors.device)
        return cls(vectors[places], torch.as_tensor(mask, device=vectors.device))


Given = torch.Tensor | Bags
"""One vector of each of n things (n, d), or several."""


def given(vectors: Any, tensor: Callable[..., torch.Tensor] = torch.as_tensor) -> Given:
    """What a score takes, of what a tower has given. tensor: makes a tensor of the array."""
    own = tensor(flat(vectors), device=get_torch_default_device())
    return Bags.of(own, vectors.counts) if isinstance(vectors, Several) else own


def as_bags(own: Given) -> Bags:
    """One vector each as bags of one."""
    if isinstance(own, Bags):
        return own
    return Bags(own[:, None], torch.ones(len(own), 1, dtype=torch.bool, device=own.device))
