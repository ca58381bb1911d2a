"""`spacy_pel.AliasCorpus.v1`: a training corpus made of a KB alone, of which every Example is a name of an entity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans

from ..errors import PelError
from ..kb.names.patterns import is_abbreviation
from ..mentions.gold import GOLD_GROUP
from .docbin import read_docs

if TYPE_CHECKING:
    from ..kb.entity import Entity
    from ..kb.knowledge_base import KnowledgeBase

AT_ONCE = 1024
SHORTEST = 4  # characters of a name that is looked for in texts
SLOT = "{name}"


def make_alias_corpus(
    kb: Path,
    texts: Sequence[Path] = (),
    templates: Sequence[str] = (),
    in_text: float = 0.0,
    window: int = 64,
    seed: int = 0,
    limit: int = 0,
) -> Callable:
    """A reader for `[corpora]`: see `AliasCorpus`."""
    return AliasCorpus(kb, texts=texts, templates=templates, in_text=in_text, window=window, seed=seed, limit=limit)


class Passage(NamedTuple):
    """The tokens `start` to `end` of `doc` name the entity `id`; that of a template is empty."""

    doc: Doc
    start: int
    end: int
    id: str


class _Named(NamedTuple):
    """An entity, as far as a passage needs it."""

    id: str
    types: tuple[str, ...]


class AliasCorpus:
    """Yields the names and aliases of a KB in random order, each as a mention of its entity: what can be learnt of a KB
    that nobody has annotated a text with.

    A name stands alone, and is then right for all entities that have it, or in a passage in the place of another name:
    of the same entity, and is then right for that one; or where no text has that, of one with the same types, and is
    then right for all entities of these types that have it. Passages are where a text has a name of `SHORTEST`
    characters or more that only one entity has: the definitions in the KB, and `texts`. Where there is none, the name
    stands in one of the `templates`, and is right for all entities that have it.

    With `max_epochs` from 0 up spaCy keeps all Examples in memory; for a large KB set it to -1, or a `limit`.

    kb: a KB folder. It is read when the corpus is called.
    texts: `.spacy` files or folders of them, of which the annotations are not read.
    templates: sentences with `{name}` where a name goes ("She was treated for {name}.").
    in_text: the share of the names that are put in a passage or template, from 0 to 1.
    window: tokens of the passage on either side.
    seed: every call gives a new order, the same in every run. limit: take so many names; 0: all.
    RAISES: `PelError` for a KB or text that cannot be read, a template without its place, or a share that is none.
    """

    def __init__(
        self,
        kb: Path,
        *,
        texts: Sequence[Path] = (),
        templates: Sequence[str] = (),
        in_text: float = 0.0,
        window: int = 64,
        seed: int = 0,
        limit: int = 0,
    ) -> None:
        if not 0 <= in_text <= 1:
            raise PelError(f"[corpora] in_text = {in_text} of spacy_pel.AliasCorpus.v1 is no share from 0 to 1.")
        for key, value in (("window", window), ("seed", seed), ("limit", limit)):
            if value < 0:
                raise PelError(f"[corpora] {key} = {value} of spacy_pel.AliasCorpus.v1: make it 0 or more.")
        for key, several in (("texts", texts), ("templates", templates)):
            if isinstance(several, (str, Path)):
                raise PelError(f'[corpora] {key} of spacy_pel.AliasCorpus.v1 is a list: make it ["{several}"].')
        for template in templates:
            if template.count(SLOT) != 1:
                raise PelError(f"[corpora] templates of spacy_pel.AliasCorpus.v1: {template!r} needs one {SLOT}.")
        self.path, self.texts, self.templates = Path(kb), [Path(text) for text in texts], templates
        self.in_text, self.window = in_text, window
        self.seed, self.limit = seed, limit
        self.calls = 0
        self._passages: Passages | None = None

    def __call__(self, nlp: Language) -> Iterator[Example]:
        from ..kb.knowledge_base import KnowledgeBase

        kb = KnowledgeBase(self.path)
        if self.in_text and self._passages is None:
            texts = (doc for path in self.texts for doc in read_docs(path, nlp.vocab))
            self._passages = Passages(nlp, kb, texts, self.templates)
        rng = np.random.default_rng([self.seed, self.calls])
        self.calls += 1
        rows, numbers = _all_names(kb)
        order = rng.permutation(len(rows))[: self.limit or None]
        for start in range(0, len(order), AT_ONCE):
            block = order[start : start + AT_ONCE]
            for id_, number in zip(kb.ids(rows[block]).tolist(), numbers[block].tolist(), strict=True):
                entity = kb[id_]
                form = (entity.name, *entity.aliases)[number]
                name, passage = nlp.make_doc(form), self._draw(rng, entity)
                if passage is None:
                    yield _example(name, 0, len(name), _joined(kb.named(form)))
                elif passage.id == entity.id:
                    yield self._example(name, entity.id, passage)
                else:
                    owners = kb.named(form)
                    alike = [one for one in owners if one.types == entity.types] if passage.id else owners
                    yield self._example(name, _joined(alike), passage)

    def _draw(self, rng: np.random.Generator, entity: Entity) -> Passage | None:
        if self._passages is None or rng.random() >= self.in_text:
            return None
        return self._passages.draw(rng, entity)

    def _example(self, name: Doc, id_: str, passage: Passage) -> Example:
        doc, start, end, _ = passage
        left, right = doc[max(start - self.window, 0) : start], doc[end : end + self.window]
        tokens = [*left, *name, *right]
        spaces = [bool(token.whitespace_) for token in tokens]
        spaces[len(left) + len(name) - 1] = bool(doc[end - 1].whitespace_)
        whole = Doc(name.vocab, words=[token.text for token in tokens], spaces=spaces)
        return _example(whole, len(left), len(left) + len(name), id_)


class Passages:
    """Where texts name entities of a KB.

    texts: any Docs, read once; the definitions of the KB come first. templates: as for `AliasCorpus`.
    """

    def __init__(self, nlp: Language, kb: KnowledgeBase, texts: Iterable[Doc], templates: Iterable[str] = ()) -> None:
        self._templates = [_template(nlp, template) for template in templates]
        self._of_entity: dict[str, list[Passage]] = defaultdict(list)
        self._of_types: dict[tuple[str, ...], list[Passage]] = defaultdict(list)
        owners = _unambiguous(kb)
        matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
        matcher.add("name", [nlp.make_doc(form) for form in owners])
        defined = ((entity.id, nlp.make_doc(entity.definition)) for entity in kb.entities() if entity.definition)
        for own_id, doc in chain(defined, (("", text) for text in texts)):
            for span in filter_spans(matcher(doc, as_spans=True)):
                entity = owners.get(span.text.lower())
                if entity is not None and entity.id != own_id:
                    passage = Passage(doc, span.start, span.end, entity.id)
                    self._of_entity[entity.id].append(passage)
                    self._of_types[entity.types].append(passage)

    def draw(self, rng: np.random.Generator, entity: Entity) -> Passage | None:
        """One that names `entity`, else one that names another with its types, else a template, or None."""
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
    """The names, in lower case, that only one entity has and that are long enough to be found in a text."""
    owners: dict[str, _Named | None] = {}
    for entity in kb.entities():
        own = _Named(entity.id, entity.types)
        for form in {name.lower() for name in (entity.name, *entity.aliases) if _can_be_found(name)}:
            owners[form] = None if form in owners else own
    return {form: own for form, own in owners.items() if own is not None}


def _can_be_found(name: str) -> bool:
    return len(name) >= SHORTEST and any(map(str.isalpha, name)) and not is_abbreviation(name)


def _all_names(kb: KnowledgeBase) -> tuple[np.ndarray, np.ndarray]:
    """The row of the entity (n,) and the place among its names (n,) of every name in the KB."""
    counts = np.array([1 + len(entity.aliases) for entity in kb.entities()])
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(kb.live_rows, counts), np.arange(counts.sum()) - first


def _joined(entities: Iterable[Entity]) -> str:
    """As a gold id, any of which is right."""
    return "|".join(entity.id for entity in entities)


def _example(doc: Doc, start: int, end: int, id_: str) -> Example:
    """`doc` with one gold mention, which names the entity `id_`."""
    reference = doc.copy()
    reference.spans[GOLD_GROUP] = [Span(reference, start, end, kb_id=id_)]
    reference.ents = list(reference.spans[GOLD_GROUP])
    return Example(doc, reference)
