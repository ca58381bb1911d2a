"""One record of a KB."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PelError

NIL = "NIL"  # what a mention that the KB has no entity for is linked to


@dataclass(frozen=True, slots=True)
class Entity:
    """One record of a KB. `id` is what `ent.kb_id_` becomes; only `id` and `name` are required.

    `types` are what filters compare, `type_names` what the encoder reads in their place: one for each type, or none
    where the types are names already.

    RAISES: `PelError` for an id that a gold standard or a link could not be told from ("NIL", or one with a "|"), for a
        NUL character, and for more or fewer names than types.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    definition: str = ""
    xrefs: tuple[str, ...] = ()
    source: str = ""
    type_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.id == NIL or "|" in self.id:
            raise PelError(f'the id "{self.id}" means something else ("NIL": not in the KB, "A|B": A or B); rename it')
        texts = (self.id, self.name, self.definition, self.source, *self.aliases, *self.types, *self.xrefs)
        if "\0" in "".join(texts):
            raise PelError(f'"{self.id}" has a NUL character in its texts; remove it')
        if self.type_names and len(self.type_names) != len(self.types):
            raise PelError(f'"{self.id}" has {len(self.types)} types and {len(self.type_names)} names; name each type')

    @property
    def concept_id(self) -> str:
        """The `id`, as scispaCy calls it."""
        return self.id

    @property
    def canonical_name(self) -> str:
        """The `name`, as scispaCy calls it."""
        return self.name
