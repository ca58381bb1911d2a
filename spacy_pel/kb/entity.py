"""One record of a KB."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PelError

NIL = "NIL"  # what a mention that the KB has no entity for is linked to
NO_ENTITY = ("", NIL)  # ids of spans that are not linked to any


@dataclass(frozen=True, slots=True)
class Entity:
    """One record of a KB. Only `id` and `name` are required.

    Attributes:
        id: What `ent.kb_id_` becomes.
        name: The title.
        aliases: Other names.
        types: What filters compare.
        definition: A text about the entity.
        xrefs: Ids elsewhere, as "SOURCE:CODE".
        source: Where the record comes from; "A+B" where it comes from both.
        type_names: What the encoder reads in the place of `types`: one for each, or none where they are names already.

    Raises:
        PelError: The id could not be told from another gold label ("NIL", or one with a "|"), a text has a NUL
            character, or there are more or fewer names than types.
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
        several = (self.aliases, self.types, self.xrefs, self.type_names)
        if not self.id or any(isinstance(one, str) for one in several):
            raise PelError(
                f'the entity "{self.id}" ({self.name}) needs an id, and lists of aliases, types and xrefs: write '
                'aliases=("MS",)'
            )
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
