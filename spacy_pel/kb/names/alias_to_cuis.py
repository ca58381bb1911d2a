"""Names to ids, under the name that scispaCy has for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ..entity import Entity


class NamedEntities(Protocol):
    """Entities that can be looked up by name."""

    def named(self, form: str) -> list[Entity]: ...

    def entities(self) -> Iterable[Entity]: ...


class AliasToCuis(Mapping[str, set[str]]):
    """Looked up on the disk. To iterate over it, or to ask for its length, reads the whole KB."""

    def __init__(self, kb: NamedEntities) -> None:
        self._kb = kb

    def __getitem__(self, alias: str) -> set[str]:
        if not isinstance(alias, str):
            raise KeyError(alias)
        ids = {entity.id for entity in self._kb.named(alias) if alias in (entity.name, *entity.aliases)}
        if not ids:
            raise KeyError(alias)
        return ids

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for entity in self._kb.entities() for name in (entity.name, *entity.aliases)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
