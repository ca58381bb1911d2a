"""Names drawn from a KB as mentions of their entities: gold where nobody has annotated a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

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
    """
    nlp = Language(vocab)
    own = [doc if doc.vocab is vocab else _copied(doc, vocab) for doc in texts]
    passages = Passages(nlp, kb, own) if own else None
    chosen = rng.permutation(kb.live_rows if rows is None else rows)[:n]
    each = ceil(n / max(len(chosen), 1))
    left = n
    for id_ in kb.ids(EntityRows(chosen)).tolist():
        entity = kb[id_]
        names = distinct_names(entity.name, entity.aliases)
        for i in rng.permutation(len(names))[: min(each, left)].tolist():
            left -= 1
            name = nlp.make_doc(names[i])
            passage = passages.draw(rng, entity) if passages else None
            yield DrawnName(passage.with_name(name, WINDOW) if passage else name[:], kb.named(names[i]))


def _copied(doc: Doc, vocab: Vocab) -> Doc:
    return Doc(vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])
