"""`spacy_pel.AliasCorpus.v1`: a training corpus made of a KB alone, of which every Example is a name of an entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..checks import check_count, check_number, refused, text_list
from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from ..mentions.gold import GOLD_GROUP
from .passages import SLOT, Passage, Passages
from .plain_texts import read_plain

AT_ONCE = 1024
SECTION = "[corpora] spacy_pel.AliasCorpus.v1"


@dataclass
class AliasCorpus:
    """A reader for `[corpora]`: the names and aliases of a KB in random order, each as a mention of its entity. It
    gives what can be learnt of a KB that nobody has annotated a text with.

    Alone: every entity with this name is correct.

    In a passage, in the place of another name: of the same entity, which is then the correct one. Where no text names
    that, of an entity with the same types; every entity of these types with this name is then correct. Passages are
    where a text has a name of at least 4 characters that only one entity has: the definitions in the KB, and `texts`.
    Without such a passage the name stands in one of the `templates`, and every entity with this name is correct.

    With `max_epochs` from 0 up spaCy keeps all Examples in memory; for a large KB set it to -1, or a `limit`.

    Attributes:
        kb: A KB folder. It is read when the corpus is called.
        texts: `.spacy` files or folders of them, `.txt` or `.jsonl` (a text a line). Their annotations are not read.
        templates: Sentences with `{name}` where a name goes ("She was treated for {name}.").
        in_text: The share of the names that are put in a passage or template, from 0 to 1.
        window: Tokens of the passage on either side.
        seed: Every call gives a new order, the same in every run.
        limit: Take so many names; 0: all.

    Raises:
        PelError: A number is out of its range, or a template has not one place for a name.
    """

    kb: Path
    texts: Sequence[Path] = ()
    templates: Sequence[str] = ()
    in_text: float = 0.0
    window: int = 64
    seed: int = 0
    limit: int = 0
    calls: int = field(default=0, init=False, repr=False)
    _passages: Passages | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_number(SECTION, "in_text", self.in_text, least=0, most=1)
        for key in ("window", "seed", "limit"):
            check_count(SECTION, key, getattr(self, key))
        for key in ("texts", "templates"):
            if isinstance(value := getattr(self, key), (str, Path)):
                raise refused(SECTION, key, str(value), f'it is a list: make it ["{value}"]')
        for template in text_list(SECTION, "templates", self.templates):
            if template.count(SLOT) != 1:
                raise PelError(f"[corpora] templates of spacy_pel.AliasCorpus.v1: {template!r} needs one {SLOT}.")

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the Examples.

        Raises:
            PelError: The KB or a text cannot be read, or the place of a template is part of a longer token.
        """
        kb = KnowledgeBase(Path(self.kb))
        if self.in_text and self._passages is None:
            texts = (doc for path in self.texts for doc in read_plain(Path(path), nlp))
            self._passages = Passages(nlp, kb, texts, self.templates)
        rng = np.random.default_rng([self.seed, self.calls])
        self.calls += 1
        rows, numbers = _all_names(kb)
        order = rng.permutation(len(rows))[: self.limit or None]
        for start in range(0, len(order), AT_ONCE):
            block = order[start : start + AT_ONCE]
            ids = kb.ids(rows[block]).tolist()
            entities = kb.get_many(ids)
            for id_, number in zip(ids, numbers[block].tolist(), strict=True):
                yield self._example_of(nlp, kb, rng, entities[id_], number)

    def _example_of(
        self, nlp: Language, kb: KnowledgeBase, rng: np.random.Generator, entity: Entity, number: int
    ) -> Example:
        """Make the Example of the name `number` of `entity`."""
        form = (entity.name, *entity.aliases)[number]
        name, passage = nlp.make_doc(form), self._draw(rng, entity)
        if passage is None:
            return _example(name, 0, len(name), _joined(kb.named(form)))
        if passage.id == entity.id:
            return self._in_passage(name, entity.id, passage)
        owners = kb.named(form)
        alike = [one for one in owners if one.types == entity.types] if passage.id else owners
        return self._in_passage(name, _joined(alike), passage)

    def _draw(self, rng: np.random.Generator, entity: Entity) -> Passage | None:
        if self._passages is None or rng.random() >= self.in_text:
            return None
        return self._passages.draw(rng, entity)

    def _in_passage(self, name: Doc, id_: str, passage: Passage) -> Example:
        span = passage.with_name(name, self.window)
        return _example(span.doc, span.start, span.end, id_)


def _all_names(kb: KnowledgeBase) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of the entity (n,) and the place among its names (n,) of every name in the KB."""
    counts = np.array([1 + len(entity.aliases) for entity in kb.entities()])
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(kb.live_rows, counts), np.arange(counts.sum()) - first


def _joined(entities: Iterable[Entity]) -> str:
    """Join ids to a gold id, any of which is right."""
    return "|".join(entity.id for entity in entities)


def _example(doc: Doc, start: int, end: int, id_: str) -> Example:
    """Make an Example of `doc` with one gold mention, which names the entity `id_`."""
    reference = doc.copy()
    reference.spans[GOLD_GROUP] = [Span(reference, start, end, kb_id=id_)]
    reference.ents = list(reference.spans[GOLD_GROUP])
    return Example(doc, reference)
