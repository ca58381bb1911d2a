"""One record of a KB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..checks import named, shown
from ..errors import PelError

NIL = "NIL"  # what a mention that the KB has no entity for is linked to
NO_ENTITY = ("", NIL)  # ids of spans that are not linked to any
SURROGATE = re.compile("[\ud800-\udfff]")


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
        PelError: A field is no text, or no texts, the id could not be told from another gold label ("NIL", or one with
            a "|"), a text has a NUL character, or there are more or fewer names than types.
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
        if not type(self.aliases) is type(self.types) is type(self.xrefs) is type(self.type_names) is tuple:
            self._take_tuples()
        try:
            self._check()
        except (TypeError, UnicodeEncodeError) as error:  # asking for the type of each text would take as long again
            raise _of_another_type(self) from error

    def _check(self) -> None:
        several = (self.aliases, self.types, self.xrefs, self.type_names)
        if not self.id or any(isinstance(one, str) for one in several):
            raise PelError(
                f'the entity "{self.id}" ({self.name}) needs an id, and lists of aliases, types and xrefs: write '
                'aliases=("MS",)'
            )
        if self.id == NIL or "|" in self.id:
            raise PelError(f'the id "{self.id}" means something else ("NIL": not in the KB, "A|B": A or B); rename it')
        own = (self.id, self.name, self.definition, self.source)
        text = "".join((*own, *self.aliases, *self.types, *self.xrefs, *self.type_names))
        if not text.isascii():
            text.encode()
        if "\0" in text:
            raise PelError(f'"{self.id}" has a NUL character in its texts; remove it')
        if self.type_names and len(self.type_names) != len(self.types):
            raise PelError(f'"{self.id}" has {len(self.types)} types and {len(self.type_names)} names; name each type')

    def _take_tuples(self) -> None:
        """Keep tuples of what was given as lists or the like, so that the entity equals the one that a KB has of it."""
        for key in ("aliases", "types", "xrefs", "type_names"):
            value = getattr(self, key)
            if isinstance(value, Iterable) and not isinstance(value, str | bytes):
                object.__setattr__(self, key, tuple(value))

    @property
    def concept_id(self) -> str:
        """The `id`, as scispaCy calls it."""
        return self.id

    @property
    def canonical_name(self) -> str:
        """The `name`, as scispaCy calls it."""
        return self.name


def _of_another_type(entity: Entity) -> PelError:
    """The error that names the first field of `entity` that is not what it should be."""
    which = f'the entity "{entity.id}" ({entity.name}):'
    for key in ("id", "name", "definition", "source"):
        if not is_text(value := getattr(entity, key)):
            return PelError(f"{which} its {key} is {shown(value)}; make it a string")
    for key in ("aliases", "types", "xrefs", "type_names"):
        value = getattr(entity, key)
        if not isinstance(value, Iterable) or not all(map(is_text, value)):
            return PelError(f'{which} its {key} are {shown(value)}; make them a tuple of strings, such as ("MS",)')
    return PelError(f"{which} its fields are no texts; make them strings")


def is_text(value: object) -> bool:
    """Whether `value` is a string without half of a surrogate pair, as all in a KB are."""
    return isinstance(value, str) and not SURROGATE.search(value)


def each_given(entities: Any) -> Iterator[Entity]:
    """`entities` as they stream by.

    Raises:
        PelError: One is no entity, or they are not several.
    """
    if not isinstance(entities, Iterable):
        raise _no_entities(f"{named(entities)} is no list of entities")
    for one in entities:
        if not isinstance(one, Entity):
            raise _no_entities(f"{named(one)} is no entity")
        yield one


def entities_given(entities: Any) -> list[Entity]:
    """`entities` as a list.

    Raises:
        PelError: They are no entities in a list, or none at all.
    """
    found: list[Any] = list(entities) if isinstance(entities, Iterable) and not isinstance(entities, str) else [None]
    wrong = [one for one in found if not isinstance(one, Entity)]
    if not found or wrong:
        what = "an empty list is no list of entities" if not found else f"{named(entities)} is no list of entities"
        if wrong and len(found) > 1:
            what = f"{named(wrong[0])} is no entity"
        raise _no_entities(what)
    return found


def _no_entities(what: str) -> PelError:
    return PelError(f'{what}; give some, such as [Entity("C01", "Aspirin")], or those of a KB, kb.entities().')
