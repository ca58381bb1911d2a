"""Entities without the name that a mention has, so that while training the name is not the only clue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..kb.entity import Entity
from ..models.inputs import RowBuilder, words_of
from ..models.token_rows import TokenRows


def with_masked_names(
    rows: TokenRows,
    places: np.ndarray,
    entities: Sequence[Entity],
    forms: Sequence[str],
    builder: RowBuilder,
) -> TokenRows:
    """Make some entity rows anew, without a name.

    Args:
        rows: The token rows of entities.
        places: (m,), which of them to make anew. A place that comes several times loses several names.
        entities: (m), their records.
        forms: (m), the names to leave out.
        builder: What makes the rows.

    Returns:
        All rows, in their order.
    """
    masked: dict[int, Entity] = {}
    for place, entity, form in zip(places.tolist(), entities, forms, strict=True):
        masked[place] = without_name(masked.get(place, entity), form)
    order = np.arange(len(rows))
    order[list(masked)] = len(rows) + np.arange(len(masked))
    return TokenRows.concatenate([rows, builder.entities(list(masked.values()))]).take(order)


def without_name(entity: Entity, form: str) -> Entity:
    """Return `entity` without its names that have the words of `form`, in whatever order.

    The first of the others takes the place of the title. The entity is left as it is where nothing else would say what
    it is.
    """
    words = words_of(form)
    names = [name for name in (entity.name, *entity.aliases) if words_of(name) != words]
    if not names:
        return replace(entity, name="", aliases=()) if entity.definition else entity
    return replace(entity, name=names[0], aliases=tuple(names[1:]))
