"""Mentions in Docs that a transformer pipe has read: of each the word pieces that are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc, Span

from ..errors import PelError
from .lenders import pieces_of
from .token_rows import distinct


@dataclass(frozen=True)
class LentRows:
    """`n` mentions in Docs. It is used as `TokenRows` are.

    Attributes:
        spans: The mentions.
        pieces: For each the places (p,) of its word pieces among those of its Doc, ascending; of one without any none.
    """

    spans: Sequence[Span]
    pieces: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: the number of word pieces of each mention."""
        return np.array([len(own) for own in self.pieces], dtype="int64")

    def take(self, indices: Sequence[int] | np.ndarray) -> LentRows:
        """Return the mentions at `indices`, in that order."""
        return LentRows([self.spans[i] for i in indices], [self.pieces[i] for i in indices])

    def unique(self) -> tuple[LentRows, np.ndarray]:
        """Return each distinct mention once, and for every mention (n,) the number of its distinct one."""
        indices, inverse = distinct((id(span.doc), span.start, span.end) for span in self.spans)
        return self.take(indices), inverse


def rows_of_states(spans: Sequence[Span]) -> LentRows:
    """Find the word pieces that are aligned with the tokens of each span.

    Raises:
        PelError: The Doc of a span has no states, or other tokens than when it was read.
    """
    aligned = {key: _Aligned(doc) for key, doc in {id(span.doc): span.doc for span in spans}.items()}
    return LentRows(spans, [aligned[id(span.doc)].pieces(span) for span in spans])


class _Aligned:
    """The word pieces of the tokens of a Doc."""

    def __init__(self, doc: Doc) -> None:
        own = pieces_of(doc)
        self._places = own.places
        self._ends = np.concatenate([[0], np.cumsum(own.lengths)])
        if len(self._ends) != len(doc) + 1:
            raise PelError(
                f"The Doc {doc.text[:40]!r} has {len(doc)} tokens, and had {len(self._ends) - 1} when the transformer "
                "pipe read it: move what merges or splits tokens before that pipe, or behind pel_linker."
            )

    def pieces(self, span: Span) -> np.ndarray:
        return np.unique(self._places[self._ends[span.start] : self._ends[span.end]])
