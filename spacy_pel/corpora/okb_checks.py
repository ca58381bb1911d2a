"""How hard an out-of-KB set is (Wiatrak et al. 2022, appendix D): what could tell NIL without the context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

import numpy as np

from ..kb.entity import Entity
from ..mentions.gold import GoldMention
from .okb import SplitStatistics, split_statistics


class Forms(NamedTuple):
    """The surface forms of the NIL mentions of a split, case ignored.

    Attributes:
        forms: How many there are.
        in_training: The share that occurs in the training text, as a mention of whatever; None without a form.
        are_names: The share that is a name of an entity that stayed in the KB; None without a form.
    """

    forms: int
    in_training: float | None
    are_names: float | None


class Texts(NamedTuple):
    """The texts of some entities, in white-space words.

    Attributes:
        entities: How many there are.
        name: Words of the name, the mean.
        aliases: Aliases, the mean number.
        defined: The share that has a definition.
        definition: Words of a definition that is there, the mean.
    """

    entities: int
    name: float | None
    aliases: float | None
    defined: float | None
    definition: float | None


class KbSides(NamedTuple):
    """What one pass over a KB says of an out-of-KB set.

    Attributes:
        left: The texts of the entities that leave it.
        stayed: Those of the others.
        known_forms: The forms that are a name of one that stayed.
    """

    left: Texts
    stayed: Texts
    known_forms: set[str]


def statistics_by_type(
    mentions: Iterable[GoldMention], types: Iterable[str], train_ids: Set[str]
) -> dict[str, SplitStatistics]:
    """Count the mentions of a split whose label names a type, for each of `types` that has any."""
    mentions = list(mentions)
    parts = {type_: [one for one in mentions if type_ in one.span.label_.split(",")] for type_ in types}
    return {type_: split_statistics(own, train_ids) for type_, own in parts.items() if own}


def nil_forms(mentions: Iterable[GoldMention], held_out: set[str]) -> set[str]:
    """Return the forms of the mentions all of whose ids are `held_out`."""
    return {mention.form for mention in mentions if mention.ids and held_out.issuperset(mention.ids)}


def form_statistics(forms: Set[str], training: Set[str], known: Set[str]) -> Forms:
    """Count the NIL `forms` of a split, those of them in the `training` text, and those that are `known` names."""

    def share(others: Set[str]) -> float | None:
        return len(forms & others) / len(forms) if forms else None

    return Forms(len(forms), share(training), share(known))


def kb_sides(entities: Iterable[Entity], held_out: set[str], forms: set[str]) -> KbSides:
    """Compare the entities that leave a KB with those that stay.

    Args:
        entities: All of the KB.
        held_out: The ids of those that leave it.
        forms: Of all NIL mentions.
    """
    sizes: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
    known: set[str] = set()
    for entity in entities:
        leaves = entity.id in held_out
        sizes[leaves].append((len(entity.name.split()), len(entity.aliases), len(entity.definition.split())))
        if not leaves:
            known.update(forms.intersection(name.casefold() for name in (entity.name, *entity.aliases)))
    return KbSides(_texts(sizes[True]), _texts(sizes[False]), known)


def _texts(sizes: Sequence[tuple[int, int, int]]) -> Texts:
    name, aliases, definition = np.array(sizes, dtype=np.int64).reshape(-1, 3).T
    defined = definition[definition > 0]
    return Texts(len(sizes), *map(_mean, (name, aliases, definition > 0, defined)))


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
