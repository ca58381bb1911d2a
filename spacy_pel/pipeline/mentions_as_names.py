"""The texts of annotated mentions as names of their entities: what nobody has to train for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.names.normal_form import normalized
from ..mentions.gold import GoldMention

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase

BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))


class LearntNames(NamedTuple):
    """What annotated mentions have taught a KB.

    Attributes:
        n_names: The names that are new.
        n_entities: The entities that have got them.
    """

    n_names: int
    n_entities: int


def with_names_of(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> tuple[list[Entity], list[Entity], LearntNames]:
    """The entities of `kb` for which these mentions have texts that are no name of theirs: as they are, and with each
    of these (see `normalized`) as one more alias. A mention that may mean several entities or that is NIL says nothing.

    Raises:
        PelError: None has an id of the KB.
    """
    given, texts = set[str](), dict[str, dict[str, str]]()
    for mention in mentions:
        given.update(mention.ids)
        text = " ".join(mention.span.text.split())
        if len(mention.ids) == 1 and _can_be_a_name(text):
            texts.setdefault(mention.ids[0], {}).setdefault(normalized(text), text)
    if not kb.get_many(given):
        raise PelError(
            f"no annotated mention has an id of the KB {kb.path}, so there is no name to learn: check that corpus and "
            "KB use the same ids (`convert --strip-prefix` removes a prefix)"
        )
    before, after, n_names = [], [], 0
    for id_, entity in kb.get_many(texts).items():
        known = set(map(normalized, (entity.name, *entity.aliases)))
        new = [text for form, text in texts[id_].items() if form not in known]
        if new:
            before.append(entity)
            after.append(replace(entity, aliases=(*entity.aliases, *new)))
            n_names += len(new)
    return before, after, LearntNames(n_names, len(after))


def _can_be_a_name(text: str) -> bool:
    """Whether there is a letter or a digit, and no half of a pair of brackets: `K)-ATPase` is a piece of something, to
    whose tokens a mention was widened."""
    return any(map(str.isalnum, text)) and all(text.count(left) == text.count(right) for left, right in BRACKETS)
