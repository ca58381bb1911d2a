"""Poolings that keep several vectors of a row: the states of its first tokens, or what learnt codes make of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

SPREAD = 0.02  # of new codes, as BERT's embeddings


@dataclass
class FirstTokens:
    """Keeps the states of a row's first real tokens.

    Attributes:
        most: How many at most; None: all.
        unit_length: Divide each vector by its length.
    """

    most: int | None
    unit_length: bool = False

    def counts(self, lengths: np.ndarray) -> np.ndarray:
        """How many vectors (n,) rows of these `lengths` (n,) have."""
        return lengths if self.most is None else np.minimum(lengths, self.most)

    def __call__(self, states: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Keep the states of a padded batch.

        Args:
            states: (n, t, hidden), the states of its tokens.
            ids: (n, t), its token ids.
            mask: (n, t), True at real tokens.

        Returns:
            (v, hidden), those of the first row first, in float32 or wider.
        """
        kept = mask if self.most is None else mask & (mask.cumsum(1) <= self.most)
        vectors = states[kept].to(torch.promote_types(states.dtype, torch.float32))
        return normalize(vectors, dim=-1) if self.unit_length else vectors


class Codes(nn.Module):
    """Reads a row with learnt codes O, each of which attends over its tokens M: F = softmax(O Mᵀ) M.

    Attributes:
        number: How many codes c there are.
        codes: (c, hidden), learnt; None before `set_codes`.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.codes: nn.Parameter | None = None

    def set_codes(self, codes: torch.Tensor) -> None:
        """Read with `codes` (c, hidden) from now on."""
        self.codes = nn.Parameter(codes)

    def new_codes(self, size: int) -> None:
        """Read with new codes of that size, drawn from N(0, 0.02)."""
        self.set_codes(SPREAD * torch.randn(self.number, size))

    def counts(self, lengths: np.ndarray) -> np.ndarray:
        """How many vectors (n,) rows of these `lengths` (n,) have: as many as there are codes."""
        return np.full(len(lengths), self.number, dtype=np.int64)

    def forward(self, states: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Read a padded batch: (n · c, hidden), those of the first row first. See `FirstTokens` for the arguments."""
        assert self.codes is not None
        states = states.to(torch.promote_types(states.dtype, torch.float32))
        logits = (states @ self.codes.to(states.dtype).T).masked_fill(~mask[:, :, None], float("-inf"))
        return (logits.softmax(1).transpose(1, 2) @ states).flatten(0, 1)
