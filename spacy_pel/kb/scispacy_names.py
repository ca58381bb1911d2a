"""A KB and its entities under the names that scispaCy has for them, so that code for its linker runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .entity import Entity
    from .knowledge_base import KnowledgeBase


class ScispacyFields:
    """`Entity`, as scispaCy calls two of its fields; the others have one name in both."""

    __slots__ = ()
    id: str
    name: str

    @property
    def concept_id(self) -> str:
        return self.id

    @property
    def canonical_name(self) -> str:
        return self.name


class ScispacyNames:
    """`linker.kb`, as scispaCy has it."""

    @property
    def cui_to_entity(self) -> Mapping[str, Entity]:
        """The KB itself: from ids to entities."""
        return cast("KnowledgeBase", self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """From a name or alias, as it is written, to the ids of the entities that have it."""
        return AliasToCuis(cast("KnowledgeBase", self))


class AliasToCuis(Mapping[str, set[str]]):
    """Looked up on the disk. To iterate over it, or to ask for its length, reads the whole KB."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __getitem__(self, alias: str) -> set[str]:
        ids = {entity.id for entity in self._kb.named(alias) if alias in (entity.name, *entity.aliases)}
        if not ids:
            raise KeyError(alias)
        return ids

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for entity in self._kb.entities() for name in (entity.name, *entity.aliases)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
