"""Documents to token rows: windows `[CLS] text [SEP]`, each read once for all its mentions, which have no markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

from .shared_rows import SharedRows
from .token_rows import TokenRows
from .tokenised_text import PieceOffsets

Encode = Callable[[Iterable[str]], list[Any]]  # texts to what a Rust tokenizer makes of them


def rows_of_names(names: Sequence[str], encode: Encode, length: int, cls: int, sep: int) -> SharedRows:
    """Make one row of at most `length` tokens a name, read as a mention that stands alone. One without a word piece is
    read as nothing between `[CLS]` and `[SEP]`, and those are its spot."""
    ids = [encoding.ids[: length - 2] for encoding in encode(names)]
    spots = [(number, 1, 1 + len(own)) if own else (number, 0, 2) for number, own in enumerate(ids)]
    return SharedRows(TokenRows.from_lists([cls, *own, sep] for own in ids), _array(spots))


def rows_of_documents(spans: Sequence[Span], encode: Encode, length: int, cls: int, sep: int) -> SharedRows:
    """Make rows of at most `length` tokens of the texts that `spans` stand in, as few as hold them all.

    A text that is longer is cut into windows, at the borders of sentences where it has some; neighbours share a quarter
    of a window. A mention is read in the window in which it is most central. It is all of the word pieces that have a
    character of it; of one that is longer than what windows share, those in that window.
    """
    docs = list({id(span.doc): span.doc for span in spans}.values())
    encodings = encode(doc.text for doc in docs)
    pieces = {id(doc): _Pieces(doc, encoding) for doc, encoding in zip(docs, encodings, strict=True)}
    windows = {key: own.windows(length - 2) for key, own in pieces.items()}
    numbers: dict[tuple[int, int], int] = {}
    rows: list[list[int]] = []
    spots = []
    for span in spans:
        key = id(span.doc)
        first, last = pieces[key].places(span.start_char, span.end_char)
        window = _most_central(windows[key], first, last)
        start, end = windows[key][window].tolist()
        if (key, window) not in numbers:
            numbers[key, window] = len(rows)
            rows.append([cls, *pieces[key].ids[start:end], sep])
        spots.append((numbers[key, window], *(min(max(place, start), end) - start + 1 for place in (first, last))))
    return SharedRows(TokenRows.from_lists(rows), _array(spots))


class _Pieces:
    """The word pieces of a text."""

    def __init__(self, doc: Doc, encoding: Any) -> None:
        self._doc, self._encoding = doc, encoding
        self.ids: list[int] = encoding.ids
        self._offsets = PieceOffsets(encoding)

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Return the first piece that ends behind character `start`, and the first that begins at `end` or later."""
        first, last = self._offsets.between(start, end)
        return first, max(first, last)

    def windows(self, most: int) -> np.ndarray:
        """Cut them into windows (w, 2), from a piece to that behind the last, of at most `most` pieces."""
        n, share = len(self.ids), most // 4
        if n <= most:
            return np.array([[0, n]])
        borders = [np.array(list(places)) for places in (self._sentences(), self._words(), range(n))]
        found, start = [], 0
        while n - start > most:
            end = _latest(borders, start + most // 2, start + most)
            found.append((start, end))
            start = _latest(borders, end - 2 * share, end - share)
        return np.array([*found, (start, n)])

    def _sentences(self) -> Iterator[int]:
        """Where sentences begin: those that the Doc has, or that its punctuation makes."""
        doc = self._doc
        if doc.has_annotation("SENT_START"):
            starts = [sentence.start for sentence in doc.sents]
        else:
            starts = np.flatnonzero(Sentencizer().predict([doc])[0]).tolist()
        return (self.places(doc[start].idx, doc[start].idx + 1)[0] for start in starts)

    def _words(self) -> Iterator[int]:
        words = self._encoding.word_ids
        return (i for i, word in enumerate(words) if i == 0 or word is None or word != words[i - 1])


def _latest(borders: Sequence[np.ndarray], low: int, high: int) -> int:
    """Return the last border of the best kind over `low` and up to `high`."""
    within = (own[(own > low) & (own <= high)] for own in borders)
    return next(int(own[-1]) for own in within if len(own))


def _most_central(windows: np.ndarray, first: int, last: int) -> int:
    """Return the number of the window that has the most pieces from `first` to `last`, and of those that have as many
    the one in which they are farthest from its ends."""
    if len(windows) == 1:
        return 0
    starts, ends = windows.T
    inside = np.minimum(ends, last) - np.maximum(starts, first)
    margin = np.minimum(first + last - 2 * starts, 2 * ends - first - last)
    return int(np.lexsort((margin, inside))[-1])


def _array(spots: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.array(spots, dtype="int64").reshape(-1, 3)
