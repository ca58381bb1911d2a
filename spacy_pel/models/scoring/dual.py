"""Scores of mentions against candidate entities. Both similarities are dot products: for "cosine" the towers already
give vectors of unit length."""

from __future__ import annotations

import torch


def all_pairs(mentions: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Every mention (m, d) against every entity (n, d): (m, n)."""
    return mentions @ entities.T


def own_pairs(mentions: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Each of m mentions (m, d) against its own c of the entities (m · c, d), laid out mention by mention: (m, c)."""
    return torch.einsum("md,mcd->mc", mentions, entities.view(len(mentions), -1, mentions.shape[1]))
