"""The texts of annotated mentions as names of their entities: what nobody has to train for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.names.normal_form import normalized
from ..mentions.gold import GoldMention


class HasEntities(Protocol):
    """A KB, as far as its records are read."""

    @property
    def path(self) -> Path: ...

    def get_many(self, ids: Iterable[str]) -> dict[str, Entity]: ...


class LearntNames(NamedTuple):
    """What annotated mentions have taught a KB.

    Attributes:
        n_names: The names that are new.
        n_entities: The entities that have got them.
    """

    n_names: int
    n_entities: int


def with_names_of(mentions: Iterable[GoldMention], kb: HasEntities) -> tuple[list[Entity], LearntNames]:
    """The entities of `kb` with those texts of their mentions as further aliases that are no name of theirs, each once
    (see `normalized`); entities without any are left out. A mention that may mean several entities, that is NIL, or
    whose text has neither letter nor digit says nothing.

    Raises:
        PelError: None has an id of the KB.
    """
    texts: dict[str, dict[str, str]] = {}
    for mention in mentions:
        text = " ".join(mention.span.text.split())
        if len(mention.ids) == 1 and any(map(str.isalnum, text)):
            texts.setdefault(mention.ids[0], {}).setdefault(normalized(text), text)
    entities = kb.get_many(texts)
    if not entities:
        raise PelError(
            f"no annotated mention has an id of the KB {kb.path}, so there is no name to learn: check that corpus and "
            "KB use the same ids (`convert --strip-prefix` removes a prefix)"
        )
    changed, n_names = [], 0
    for id_, entity in entities.items():
        known = set(map(normalized, (entity.name, *entity.aliases)))
        new = [text for form, text in texts[id_].items() if form not in known]
        if new:
            changed.append(replace(entity, aliases=(*entity.aliases, *new)))
            n_names += len(new)
    return changed, LearntNames(n_names, len(changed))
