"""Names drawn from a KB as mentions of their entities: gold where nobody has annotated a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..checks import named
from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from ..kb.names.normal_form import distinct_names
from ..kb.numbering import EntityRows
from .passages import Passages

WINDOW = 64  # tokens of a passage on either side of a name


class DrawnName(NamedTuple):
    """A name as a mention.

    Attributes:
        span: The mention, alone or in a passage.
        owners: The entities that have this name.
    """

    span: Span
    owners: list[Entity]


def draw_names(
    kb: KnowledgeBase,
    n: int,
    rng: np.random.Generator,
    *,
    vocab: Vocab,
    rows: EntityRows | None = None,
    texts: Iterable[Doc] = (),
) -> Iterator[DrawnName]:
    """Draw names: entities first, each as likely as any other, then names of them, each of them once.

    Args:
        kb: The KB.
        n: How many names to draw; a KB with fewer gives all.
        rng: Draws.
        vocab: Of the Docs.
        rows: The entities to draw from; None: all.
        texts: Unannotated Docs. A name is put in the place of another that stands there, or in a definition of the KB:
            of the same entity, or else of one with the same types. Where there is none, and without texts, it stands
            alone.

    Raises:
        PelError: A text is no Doc.
    """
    nlp = Language(vocab)
    texts = list(texts)
    if others := [text for text in texts if not isinstance(text, Doc)]:
        raise PelError(f"texts: {named(others[0])} is no Doc: give Docs, such as nlp.pipe(texts) makes of texts.")
    own = [doc if doc.vocab is vocab else _copied(doc, vocab) for doc in texts]
    passages = Passages(nlp, kb, own) if own else None
    chosen = rng.permutation(kb.live_rows if rows is None else rows)[:n]
    each = ceil(n / max(len(chosen), 1))
    for entity, drawn in islice(_names(kb, kb.ids(EntityRows(chosen)).tolist(), each, rng), n):
        name = nlp.make_doc(drawn)
        passage = passages.draw(rng, entity) if passages else None
        yield DrawnName(passage.with_name(name, WINDOW) if passage else name[:], kb.named(drawn))


def _names(kb: KnowledgeBase, ids: Sequence[str], each: int, rng: np.random.Generator) -> Iterator[tuple[Entity, str]]:
    """Names of these entities, in any order: `each` of every one that has so many, then those that are left."""
    left: dict[str, list[str]] = {}
    for id_ in ids:
        entity = kb[id_]
        names = distinct_names(entity.name, entity.aliases)
        order = [names[i] for i in rng.permutation(len(names)).tolist()]
        yield from ((entity, name) for name in order[:each])
        if order[each:]:
            left[id_] = order[each:]
    yield from ((kb[id_], name) for id_, names in left.items() for name in names)


def _copied(doc: Doc, vocab: Vocab) -> Doc:
    return Doc(vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])
