"""The dual encoder's score: one vector a mention, one vector an entity, and their dot product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from .bags import Given
from .score import Score

SIMILARITIES = ("dot", "cosine")


@dataclass(frozen=True)
class Dual(Score):
    """Scores pairs by the dot product of their vectors: their cosine, where the towers give vectors of unit length.

    It goes with every pooling, and is what a bi-encoder without a `score` has.
    """

    registered: ClassVar[str] = "spacy_pel.DualScore.v1"
    similarities: ClassVar[tuple[str, ...]] = SIMILARITIES
    shares_towers: ClassVar[bool] = True
    one_vector: ClassVar[bool] = True

    def all_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """Score every mention (m, d) against every entity (n, d): (m, n)."""
        assert isinstance(mentions, torch.Tensor) and isinstance(entities, torch.Tensor)
        return mentions @ entities.T

    def own_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """Score every mention (m, d) against c entities of its own (m · c, d), mention by mention: (m, c)."""
        assert isinstance(mentions, torch.Tensor) and isinstance(entities, torch.Tensor)
        return torch.einsum("md,mcd->mc", mentions, entities.view(len(mentions), -1, mentions.shape[1]))

    @property
    def setting(self) -> None:
        """See `Score`."""
        return None

    def check(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: it goes with all settings."""
