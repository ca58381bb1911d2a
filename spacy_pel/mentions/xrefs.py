"""`span._.kb_xrefs`: looked up when it is asked for, in the KBs of the linkers that are open in this process.

Nothing is kept on the Doc: it costs nothing where nobody asks, and Docs from other processes or from a file have it too
where a pipeline with the KB is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import PelError
from ..kb.entity import NO_ENTITY
from .noted import NotedDocs

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase


class HasKb(Protocol):
    """A linker."""

    vocab: Vocab
    kb: KnowledgeBase | None
    noted: NotedDocs

    def mentions(self, doc: Doc) -> list[Span]: ...


_linkers: WeakValueDictionary[int, Any] = WeakValueDictionary()  # in the order in which they were made
_number = count()


def note_linker(linker: HasKb) -> None:
    """Look ids up in the KB of this linker too, as long as it lives."""
    _linkers[next(_number)] = linker


def xrefs_of(span: Span) -> tuple[str, ...]:
    """The `xrefs` of the entity that `span` is linked to; none of NIL, nor of one that has left the KB. Of several
    linkers that know the id, one that has linked the Doc comes first, then one of its vocabulary; of these, one that
    links `span` and has not only kept its id, then the youngest.

    Raises:
        PelError: No linker with a KB is open; or none knows the id, and the KB of one cannot be read, nor another open
            linker read it.
    """
    id = span.kb_id_
    if id in NO_ENTITY:
        return ()
    linkers = [linker for linker in reversed(list(_linkers.values())) if linker.kb is not None]
    if not linkers:
        raise PelError(f'kb_xrefs of "{id}": no pipeline with a KB is open; spacy.load the one that linked this Doc.')
    answered: set[Path] = set()
    failed: dict[Path, PelError] = {}
    for linker in _nearest_first(linkers, span):
        try:
            entity = linker.kb.get(id)
        except PelError as error:  # a pipeline that lives on, whose KB was compacted, say
            failed.setdefault(linker.kb.path, error)
            continue
        if entity is not None:
            return entity.xrefs
        answered.add(linker.kb.path)
    for path, failure in failed.items():
        if path not in answered:
            raise failure
    return ()


def _nearest_first(linkers: list[Any], span: Span) -> Iterator[Any]:
    linkers.sort(key=lambda linker: _distance(linker, span.doc))
    for _, equally_far in groupby(linkers, key=lambda linker: _distance(linker, span.doc)):
        near = list(equally_far)
        if len(near) > 1:  # to ask for the mentions of a Doc takes long where it has many
            near.sort(key=lambda linker: (span not in linker.mentions(span.doc), linker.noted.has_kept(span)))
        yield from near


def _distance(linker: HasKb, doc: Doc) -> tuple[bool, bool]:
    """The lower, the likelier it is that `linker` has linked the mentions of `doc`."""
    is_its_vocab = any(vocab is doc.vocab for vocab in (linker.vocab, linker.noted.vocab))
    return not linker.noted.has_linked(doc), not is_its_vocab
