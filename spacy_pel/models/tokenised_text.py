"""A text with its word pieces, parted into what is before, in and after a mention."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LONGEST_PIECE = 100  # characters of a word that is read; BERT's tokenizers take a longer one for an unknown word


class Parted(NamedTuple):
    """The word pieces before, in and after a mention, or the characters that these are to be made of."""

    left: Any
    mention: Any
    right: Any


class PieceOffsets:
    """Where the n word pieces of a text begin and end, in characters.

    Attributes:
        starts: (n,) int64, their first characters.
        ends: (n,) int64, the characters behind their last.
    """

    def __init__(self, encoding: Any) -> None:
        """Take those that a tokenizer has found."""
        offsets = np.array(encoding.offsets, dtype="int64").reshape(-1, 2)
        self.starts, self.ends = offsets[:, 0], offsets[:, 1]

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Return the first piece that ends behind character `start`, and the first that begins at `end` or behind it,
        which may be the one before."""
        first = np.searchsorted(self.ends, start, side="right")
        return int(first), int(np.searchsorted(self.starts, end, side="left"))


class TokenisedText:
    """A text that was tokenised once, for all its mentions."""

    def __init__(self, text: str, encoding: Any, reach: int) -> None:
        """Keep where each word piece begins and ends, and the word it belongs to.

        Args:
            text: The text.
            encoding: What the tokenizer has made of it.
            reach: How many pieces of each part can be used; more are left out.
        """
        self._text = text
        self._reach = reach
        self._ids: list[int] = encoding.ids
        self._offsets = PieceOffsets(encoding)
        words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype="int64")
        begins = np.append(True, words[1:] != words[:-1])[: len(words)]
        self._begins_word = begins
        self._first_of_word = np.flatnonzero(begins)
        self._word_of = np.cumsum(begins) - 1

    def split(self, start: int, end: int) -> Parted | None:
        """Return the pieces around characters `start` to `end`; None if a word crosses either."""
        first, last = self._offsets.between(start, end)
        if last < first or self._inside_word(first) or self._inside_word(last):
            return None
        if first < last and (self._offsets.starts[first] < start or self._offsets.ends[last - 1] > end):
            return None
        ids, reach = self._ids, self._reach
        return Parted(
            ids[max(first - reach, 0) : first], ids[first : min(last, first + reach)], ids[last : last + reach]
        )

    def characters(self, start: int, end: int) -> Parted:
        """Return the characters around `start` to `end` that are to be tokenised by themselves, since a word crosses
        either: beside what is left of such a word as many as `reach` pieces are made of, and a word more, in which the
        tokenizer may not yet, or no longer, part them as it parts the whole text."""
        first, last = self._offsets.between(start, end)
        left = self._begin_before(first)
        most = LONGEST_PIECE * self._reach
        return Parted(
            self._text[max(left, start - most) : start],
            self._text[start : min(end, self._end_behind(first), start + most)],
            self._text[end : min(self._end_behind(last), end + most)],
        )

    def _begin_before(self, piece: int) -> int:
        """Return the character from which to read, so that `reach` pieces come before the word of `piece`."""
        piece = int(self._first_of_word[self._word(piece)]) - self._reach
        word = int(self._word_of[piece]) - 1 if piece > 0 else 0
        return int(self._offsets.starts[self._first_of_word[word]]) if word > 0 else 0

    def _end_behind(self, piece: int) -> int:
        """Return the character up to which to read, so that `reach` pieces come behind the word of `piece`."""
        n_words = len(self._first_of_word)
        word = self._word(piece) + 1
        piece = int(self._first_of_word[word]) + self._reach if word < n_words else len(self._ids)
        word = int(self._word_of[piece]) + 2 if piece < len(self._ids) else n_words
        return int(self._offsets.ends[self._first_of_word[word] - 1]) if word < n_words else len(self._text)

    def _word(self, piece: int) -> int:
        return int(self._word_of[piece]) if piece < len(self._ids) else len(self._first_of_word) - 1

    def _inside_word(self, piece: int) -> bool:
        return 0 < piece < len(self._ids) and not self._begins_word[piece]
