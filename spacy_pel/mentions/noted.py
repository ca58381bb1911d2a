"""What a linker remembers of the Docs that it has linked in this process, as long as they live."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

Place = tuple[int, int, str, str]


class NotedDocs:
    """The Docs that a linker has linked, each with the mentions that had an id and kept it when it last did so. Nothing
    is on the Doc: copies of it, and Docs from other processes or from a file, are not known.

    Attributes:
        vocab: That of the latest of them, or None. It is not that of a linker from another pipeline.
    """

    def __init__(self) -> None:
        self.vocab: Vocab | None = None
        self._kept: WeakKeyDictionary[Doc, frozenset[Place]] = WeakKeyDictionary()

    def note(self, doc: Doc, kept: Iterable[Span]) -> None:
        """Remember that `doc` is linked, but for the mentions `kept`."""
        self.vocab = doc.vocab
        self._kept[doc] = frozenset(map(_place, kept))

    def has_linked(self, doc: Doc) -> bool:
        """Whether the linker has linked `doc`."""
        return doc in self._kept

    def has_kept(self, span: Span) -> bool:
        """Whether the linker, when it last linked the Doc, left `span` the id that it has."""
        return _place(span) in self._kept.get(span.doc, frozenset())


def _place(span: Span) -> Place:
    """Where a mention is, whatever becomes of the tokens, and what it is linked to."""
    return span.start_char, span.end_char, span.label_, span.kb_id_
