"""The names of a candidate in the order of their likeness to a mention, so that a short row has those that tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..kb.entity import Entity
from ..kb.names.grams import name_grams
from ..kb.names.normal_form import normalized


def nearest_first(mention: str, candidates: Sequence[Entity]) -> list[Entity]:
    """Return `candidates` with their aliases in the order of the cosine of their 3-grams with those of `mention`; of
    aliases that are as near, in the order of the KB."""
    names = [normalized(alias) for entity in candidates for alias in entity.aliases]
    nearness = _nearness(normalized(mention), names)
    starts = np.cumsum([len(entity.aliases) for entity in candidates])[:-1]
    orders = (np.argsort(-own, kind="stable") for own in np.split(nearness, starts))
    return [
        replace(entity, aliases=tuple(entity.aliases[place] for place in order))
        for entity, order in zip(candidates, orders, strict=True)
    ]


def _nearness(mention: str, names: Sequence[str]) -> np.ndarray:
    """The cosine of the 3-grams of each of n normalised names with those of `mention`, but for a factor: (n,)."""
    grams, owners = name_grams(names)
    common = np.bincount(owners, np.isin(grams, name_grams([mention]).grams), minlength=len(names))
    return common / np.sqrt(np.bincount(owners, minlength=len(names)).clip(min=1))
