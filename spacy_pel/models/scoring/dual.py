"""The dual encoder's score: one vector a mention, one vector an entity, and their dot product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True)
class Dual:
    """Scores pairs by the dot product of their vectors: their cosine, where the towers give vectors of unit length.

    A score says how pairs are scored, for a loss, and what of it an index can retrieve by inner product, for a search.
    Another score function (several vectors an entity, poly-encoders) is another class with these methods.
    """

    def all_pairs(self, mentions: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
        """Score every mention against every entity.

        Args:
            mentions: (m, d).
            entities: (n, d).

        Returns:
            (m, n).
        """
        return mentions @ entities.T

    def own_pairs(self, mentions: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
        """Score every mention against c entities of its own.

        Args:
            mentions: (m, d).
            entities: (m · c, d), mention by mention.

        Returns:
            (m, c).
        """
        return torch.einsum("md,mcd->mc", mentions, entities.view(len(mentions), -1, mentions.shape[1]))

    def queries(self, mentions: np.ndarray) -> np.ndarray:
        """Return what an index is searched with: the vectors (m, d) of the mentions, as they are."""
        return mentions

    def keys(self, entities: np.ndarray) -> np.ndarray:
        """Return what an index holds: the vectors (n, d) of the entities, as they are. The inner products of queries
        and keys are the scores."""
        return entities
