"""Pooling: the states of a row's tokens to the vector that stands for the row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import normalize

POOLINGS = ("mean", "mention", "cls")


@dataclass
class Pooling:
    """Takes the mean over some of a row's states.

    Attributes:
        kind: "mean": over all real tokens; "mention": over those between the markers, or over all in a row without
            markers; "cls": the first state.
        unit_length: Divide each vector by its length, so that a dot product of two is their cosine.
        markers: The token ids of `[Ms]` and `[Me]`.
    """

    kind: str
    unit_length: bool
    markers: tuple[int, int] = (-1, -1)

    def __call__(self, states: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Pool a padded batch.

        Args:
            states: (n, t, hidden), the states of its tokens.
            ids: (n, t), its token ids.
            mask: (n, t), True at real tokens.

        Returns:
            (n, hidden), one vector a row, in float32 or wider.
        """
        return self._mean(states, self._pooled(ids, mask))

    def counts(self, lengths: np.ndarray) -> None:
        """How many vectors rows of these `lengths` (n,) have: None for one each."""

    def of_spots(self, states: torch.Tensor, spots: torch.Tensor) -> torch.Tensor:
        """Take the mean over each of k spots of a padded batch.

        Args:
            states: (n, t, hidden), the states of its tokens.
            spots: (k, 3) int64: the row of each, its first token and the one behind its last.

        Returns:
            (k, hidden), one vector a spot, in float32 or wider.
        """
        rows, starts, ends = spots.unsqueeze(-1).unbind(1)
        longest = int((ends - starts).max()) if len(spots) else 0
        places = starts + torch.arange(longest, device=spots.device)
        return self._mean(states[rows, places.clamp(max=states.shape[1] - 1)], places < ends)

    def _mean(self, states: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        """The mean of those of `states` (n, t, hidden) that are `taken` (n, t)."""
        weights = taken.unsqueeze(-1).to(torch.promote_types(states.dtype, torch.float32))
        vectors = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        return normalize(vectors, dim=-1) if self.unit_length else vectors

    def _pooled(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Where in (n, t) the states are whose mean is taken."""
        if self.kind == "mean":
            return mask
        if self.kind == "cls":
            return torch.arange(ids.shape[1], device=ids.device).expand_as(ids) == 0
        start, end = self.markers
        inside = ((ids == start).cumsum(1) > (ids == end).cumsum(1)) & (ids != start)
        return torch.where(inside.any(1, keepdim=True), inside, mask)
