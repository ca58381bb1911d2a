"""Mentions in Docs that a `transformer` pipe has read: of each the word pieces that are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span
from thinc.api import to_numpy

from ..errors import PelError
from .token_rows import distinct

STATES = "trf_data"  # what spacy-transformers sets on a Doc


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


def states_of(doc: Doc) -> Any:
    """Return what the `transformer` pipe has set on `doc`.

    Raises:
        PelError: Nothing.
    """
    states = getattr(doc._, STATES) if doc.has_extension(STATES) else None
    if states is None:
        raise PelError(
            f"The Doc {doc.text[:40]!r} was not read by the transformer pipe that pel_linker listens to: keep that "
            "pipe before pel_linker, name it in annotating_components of [training] where it is one of the "
            'frozen_components, and run it over Docs of your own: docs = list(nlp.get_pipe("transformer").pipe(docs)).'
        )
    return states


class _Aligned:
    """The word pieces of the tokens of a Doc."""

    def __init__(self, doc: Doc) -> None:
        align = states_of(doc).align
        self._places = to_numpy(align.dataXd).reshape(-1)
        self._ends = np.concatenate([[0], np.cumsum(to_numpy(align.lengths))])
        if len(self._ends) != len(doc) + 1:
            raise PelError(
                f"The Doc {doc.text[:40]!r} has {len(doc)} tokens, and had {len(self._ends) - 1} when the transformer "
                "pipe read it: move what merges or splits tokens before that pipe, or behind pel_linker."
            )

    def pieces(self, span: Span) -> np.ndarray:
        return np.unique(self._places[self._ends[span.start] : self._ends[span.end]])
