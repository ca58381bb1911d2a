"""Passages of text in which the name of an entity can stand in the place of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from ..kb.names.patterns import is_abbreviation
from ..mentions.tokens import tokenised

SHORTEST = 4  # characters of a name that is looked for in texts
SLOT = "{name}"


class Passage(NamedTuple):
    """The tokens `start` to `end` of `doc`, which name the entity `id`. The `id` of a template is empty."""

    doc: Doc
    start: int
    end: int
    id: str

    def with_name(self, name: Doc, window: int) -> Span:
        """Put `name` in the place of what stands there, with up to `window` tokens on either side."""
        doc, start, end, _ = self
        left, right = doc[max(start - window, 0) : start], doc[end : end + window]
        tokens = [*left, *name, *right]
        spaces = [bool(token.whitespace_) for token in tokens]
        spaces[len(left) + len(name) - 1] = bool(doc[end - 1].whitespace_)
        whole = Doc(name.vocab, words=[token.text for token in tokens], spaces=spaces)
        return whole[len(left) : len(left) + len(name)]


class _Named(NamedTuple):
    """An entity, as far as a passage needs it."""

    id: str
    types: tuple[str, ...]


class Passages:
    """Where texts name entities of a KB: the definitions in the KB come first, then other texts."""

    def __init__(self, nlp: Language, kb: KnowledgeBase, texts: Iterable[Doc], templates: Iterable[str] = ()) -> None:
        """Find them.

        Args:
            nlp: Gives the tokenizer and the vocabulary.
            kb: Has the names and the definitions.
            texts: Any Docs, read once.
            templates: Sentences with `{name}` where a name goes.

        Raises:
            PelError: The place of a template is part of a longer token.
        """
        self._templates = [_template(nlp, template) for template in templates]
        self._of_entity: dict[str, list[Passage]] = defaultdict(list)
        self._of_types: dict[tuple[str, ...], list[Passage]] = defaultdict(list)
        owners = _unambiguous(kb)
        matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
        matcher.add("name", [nlp.make_doc(form) for form in owners])
        defined = ((entity.id, tokenised(nlp, entity.definition)) for entity in kb.entities() if entity.definition)
        for own_id, doc in chain(defined, (("", text) for text in texts)):
            for span in filter_spans(matcher(doc, as_spans=True)):
                entity = owners.get(span.text.lower())
                if entity is not None and entity.id != own_id:
                    passage = Passage(doc, span.start, span.end, entity.id)
                    self._of_entity[entity.id].append(passage)
                    self._of_types[entity.types].append(passage)

    def draw(self, rng: np.random.Generator, entity: Entity) -> Passage | None:
        """Draw one that names `entity`, else one that names another with its types, else a template, or None."""
        found = self._of_entity.get(entity.id) or self._of_types.get(entity.types) or self._templates
        return found[rng.integers(len(found))] if found else None


def _template(nlp: Language, template: str) -> Passage:
    start, word = template.index(SLOT), SLOT.strip("{}")
    doc = nlp.make_doc(template.replace(SLOT, word))
    slot = doc.char_span(start, start + len(word))
    if slot is None:
        raise PelError(
            f"[corpora] templates of spacy_pel.AliasCorpus.v1: {SLOT} of {template!r} is part of a longer token; put a "
            "space before and behind it."
        )
    return Passage(doc, slot.start, slot.end, "")


def _unambiguous(kb: KnowledgeBase) -> dict[str, _Named]:
    """Return the names, in lower case, that only one entity has and that are long enough to be found in a text."""
    owners: dict[str, _Named | None] = {}
    for entity in kb.entities():
        own = _Named(entity.id, entity.types)
        for form in {name.lower() for name in (entity.name, *entity.aliases) if _can_be_found(name)}:
            owners[form] = None if form in owners else own
    return {form: own for form, own in owners.items() if own is not None}


def _can_be_found(name: str) -> bool:
    return len(name) >= SHORTEST and any(map(str.isalpha, name)) and not is_abbreviation(name)
