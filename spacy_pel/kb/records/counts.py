"""Counts over entities as they stream by, for the `meta` of a KB and for `build-kb --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...errors import PelError

if TYPE_CHECKING:
    from ..entity import Entity


class Counts:
    """How many entities, aliases and definitions there were, of which types and from which sources."""

    def __init__(self, type_names: Mapping[str, str] | None = None) -> None:
        """No entity yet. type_names: What types are called already."""
        self.entities = self.aliases = self.definitions = 0
        self.types: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.type_names: dict[str, str] = dict(type_names or {})

    def count(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Pass `entities` on. Of a source "A+B" each part counts.

        Raises:
            PelError: One calls a type otherwise than those before it, or than it is called already.
        """
        for entity in entities:
            self.entities += 1
            self.aliases += len(entity.aliases)
            self.definitions += bool(entity.definition)
            self.types.update(dict.fromkeys(entity.types, 1))
            self._name_types(entity)
            if entity.source:
                self.sources.update(dict.fromkeys(entity.source.split("+"), 1))
            yield entity

    def _name_types(self, entity: Entity) -> None:
        for kind, name in zip(entity.types, entity.type_names, strict=False):
            if name.strip() not in ("", kind) and (other := self.type_names.setdefault(kind, name)) != name:
                raise PelError(
                    f'"{entity.id}" calls the type "{kind}" "{name}", which is "{other}" already: a KB has one '
                    "name for a type; give it that, or build the KB again with the other."
                )

    def totals(self) -> dict[str, int]:
        """The four counts that `meta` keeps."""
        return {
            "entities": self.entities,
            "aliases": self.aliases,
            "definitions": self.definitions,
            "types": len(self.types),
        }
