"""What a reader hands over: entities, and what is known about the source once they have been read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..entity import Entity

NO_NAME = "entities with no shorter name"  # what `skipped` calls those that are left out
LONGEST_NAME = 3000  # characters; UMLS's own limit. The encoder sees the first hundred tokens at most.


@dataclass
class Records:
    """The entities of a source, to be iterated over once.

    Attributes:
        entities: As the reader gives them.
        skipped: What was left out, and how often; complete when the entities have been read, as is `retired`.
        retired: (old id, successor) pairs.
        notes: What the source says of itself: its source, release and licence.
    """

    entities: Iterable[Entity]
    skipped: Counter[str] = field(default_factory=Counter)
    retired: Iterable[tuple[str, str]] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Entity]:
        """The entities without names of more than 3,000 characters; where the title is one, the first alias stands in
        for it. An entity that has no other name is left out."""
        for entity in self.entities:
            names = (entity.name, *entity.aliases)
            short = tuple(name for name in names if len(name) <= LONGEST_NAME)
            if len(short) == len(names):
                yield entity
                continue
            self.skipped[f"names of more than {LONGEST_NAME:,} characters"] += len(names) - len(short)
            if short:
                yield replace(entity, name=short[0], aliases=short[1:])
            else:
                self.skipped[NO_NAME] += 1


def with_last(successors: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(old id, successor) pairs, where a successor that is retired itself gives way to its own, up to the last."""
    for old in successors:
        yield old, _last(old, successors)


def _last(id: str, successors: Mapping[str, str]) -> str:
    passed = {id}
    while (after := successors.get(id)) and after not in passed:
        passed.add(after)
        id = after
    return id
