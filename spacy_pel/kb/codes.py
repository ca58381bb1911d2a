"""Codes of entities in other vocabularies, from their `xrefs`: "ICD10CM:I21" is the code I21 of ICD10CM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..checks import check_text
from .entity import NO_ENTITY

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase


def codes_in(xrefs: Iterable[str], vocabulary: str) -> list[str]:
    """The codes of that vocabulary among `xrefs`, once each; a web address is no code."""
    parts = (xref.partition(":") for xref in xrefs)
    codes = (code for source, _, code in parts if source == vocabulary and code and not code.startswith("//"))
    return list(dict.fromkeys(codes))


def codes_of(kb: KnowledgeBase, id: str, vocabularies: Iterable[str]) -> dict[str, list[str]]:
    """For each of `vocabularies` the codes of the entity `id`, none where the KB does not have it (any more)."""
    entity = None if id in NO_ENTITY else kb.get(id)
    return {vocabulary: codes_in(entity.xrefs if entity else (), vocabulary) for vocabulary in vocabularies}


def codes_finder(kb: KnowledgeBase, vocabularies: Sequence[str]) -> Callable[[str], dict[str, list[str]]] | None:
    """From an id to its codes in `vocabularies`, see `codes_of`; None without any."""
    return partial(codes_of, kb, vocabularies=vocabularies) if vocabularies else None


def checked_codes_of(kb: KnowledgeBase, id: str, vocabulary: str) -> list[str]:
    """The codes of an entity in one vocabulary, none of "NIL".

    Raises:
        PelError: The KB has no such entity, or no entity with a code of that vocabulary.
    """
    check_text("linker.codes", "vocabulary", vocabulary, 'name one, such as "ICD10CM"')
    codes = [] if id in NO_ENTITY else codes_in(kb[id].xrefs, vocabulary)
    if not codes:
        kb.check_vocabularies([vocabulary])
    return codes
