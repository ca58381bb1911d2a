"""Counts over entities as they stream by, for the `meta` of a KB and for `build-kb --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..entity import Entity


class Counts:
    """How many entities, aliases and definitions there were, of which types and from which sources."""

    def __init__(self) -> None:
        self.entities = self.aliases = self.definitions = 0
        self.types: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.type_names: dict[str, str] = {}

    def count(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Pass `entities` on. Of a source "A+B" each part counts."""
        for entity in entities:
            self.entities += 1
            self.aliases += len(entity.aliases)
            self.definitions += bool(entity.definition)
            self.types.update(entity.types)
            self.type_names.update(zip(entity.types, entity.type_names, strict=False))
            if entity.source:
                self.sources.update(entity.source.split("+"))
            yield entity

    def totals(self) -> dict[str, int]:
        """The four counts that `meta` keeps."""
        return {
            "entities": self.entities,
            "aliases": self.aliases,
            "definitions": self.definitions,
            "types": len(self.types),
        }
