"""Leave entities out of a KB on purpose, so that their mentions are NIL: how NIL is judged where a KB lacks nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from ..errors import PelError
from .entity import Entity


@dataclass(frozen=True)
class HoldOut:
    """Which entities to leave out.

    Attributes:
        share: Of all entities, in [0, 1). `seed` and an entity's id alone decide on it, so that it is the same in any
            order and in every part of a source.
        types: An entity that has any of them is held out.
        seed: Of `share`.

    Raises:
        PelError: `share` is not from 0 up to, not with, 1.
    """

    share: float = 0.0
    types: frozenset[str] = frozenset()
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise PelError(f"--hold-out: {self.share} is no share of the entities; give one from 0 up to, not with, 1.")

    def __bool__(self) -> bool:
        return self.share > 0 or bool(self.types)

    def holds(self, entity: Entity) -> bool:
        """Whether `entity` is left out."""
        if not self.types.isdisjoint(entity.types):
            return True
        drawn = blake2b(f"{self.seed} {entity.id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self.share * 2**64

    def kept(self, entities: Iterable[Entity], skipped: Counter[str]) -> Iterator[Entity]:
        """Those of `entities` that stay; the others are counted in `skipped`.

        Raises:
            PelError: At the end, where no entity had one of the types.
        """
        seen: set[str] = set()
        for entity in entities:
            seen.update(self.types.intersection(entity.types))
            if self.holds(entity):
                skipped["entities held out"] += 1
            else:
                yield entity
        if unknown := sorted(self.types - seen):
            raise PelError(
                f'--hold-out-types: no entity has the type "{unknown[0]}"; see the types with --dry-run, and write one '
                "that has a comma within in double quotes, as in '\"A, B\"'."
            )
