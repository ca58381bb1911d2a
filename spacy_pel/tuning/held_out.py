"""What a search has found for the name of an entity, as if the KB lacked the name, or the entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..kb.entity import NIL
from ..search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from ..search.search import Found
from .name_weights import GoldFound

SIDES = (SIMILARITY, NAMES, NGRAM)


def without_name(found: Found, parts: Mapping[str, Mapping[str, float]], depth: int) -> Found:
    """`found` as if some entities lacked the name that was searched.

    Args:
        found: What was found.
        parts: Of their ids, what their scores are made of without that name.
        depth: How deep each side was searched: one of these entities that no side would have found is left out.
    """
    places = {id_: place for place, id_ in enumerate(found.ids) if id_ in parts}
    values = {part: own.copy() for part, own in found.parts.items()}
    for id_, place in places.items():
        for part, value in {**parts[id_], EXACT: 0.0}.items():
            if part in values:
                values[part][place] = value
    sides = [values[part] for part in SIDES if part in values]
    reached = np.ones(len(found.ids), dtype=bool)
    for place in places.values():
        reached[place] = any((side > side[place]).sum() < depth for side in sides)
    return found._replace(parts=values).only(reached)


def without_entities(gold: GoldFound) -> GoldFound:
    """A mention as if the KB lacked all that it may mean: it is NIL."""
    return GoldFound(gold.mention._replace(ids=(NIL,)), gold.found.only(~gold.right()))


def without_same_concepts(gold: GoldFound, same: Mapping[str, Sequence[str]]) -> GoldFound:
    """A mention without the candidates that are none of its entities but the same concept as one: they are neither
    right nor wrong.

    Args:
        gold: What was found for it.
        same: For ids those of the same concepts.
    """
    others = {other for id_ in gold.mention.ids for other in same.get(id_, ())}.difference(gold.mention.ids)
    left = np.array([id_ not in others for id_ in gold.found.ids], dtype=bool)
    return gold._replace(found=gold.found.only(left))
