"""The rows of a cross-encoder: those of entities behind those of mentions, one a pair or all of a mention in one."""

from __future__ import annotations

import numpy as np

from ..kb.stretches import stretches
from .inputs import fitted
from .shared_rows import SharedRows
from .token_rows import TokenRows


def behind(mentions: TokenRows, entities: TokenRows, mention_of: np.ndarray) -> TokenRows:
    """Put each row of `entities`, without its first token, behind the row of its mention: one row a pair.

    Args:
        mentions: m rows.
        entities: n rows.
        mention_of: (n,), the number of the mention of each.
    """
    return _end_to_end(mentions.take(mention_of), _without_first(entities))


def sharing_room(
    mentions: TokenRows, entities: TokenRows, mention_of: np.ndarray, longest: tuple[int, int], markers: tuple[int, int]
) -> TokenRows:
    """As `behind`, of rows that are still as long as both together may be: each is cut to what is `longest` of a
    mention, or of an entity, and to that much more as the other leaves of it.

    Args:
        mentions: m rows.
        entities: n rows.
        mention_of: (n,), the number of the mention of each.
        longest: A mention row, and an entity row with its first token.
        markers: The token ids before and behind a mention.
    """
    wanted = mentions.lengths[mention_of]
    of_entity = np.minimum(entities.lengths, np.maximum(longest[1], sum(longest) - wanted))
    of_mention = np.minimum(wanted, sum(longest) - of_entity)
    pairs = list(zip(mention_of.tolist(), of_mention.tolist(), strict=True))
    windows = {pair: _cut_window(mentions[pair[0]].tolist(), pair[1], markers) for pair in dict.fromkeys(pairs)}
    cut = [[*entities[i][: most - 1], entities[i][-1]] for i, most in enumerate(of_entity.tolist())]
    return behind(TokenRows.from_lists(map(windows.__getitem__, pairs)), TokenRows.from_lists(cut), np.arange(len(cut)))


def _cut_window(row: list[int], longest: int, markers: tuple[int, int]) -> list[int]:
    """A mention row with fewer tokens around its mention, and in it where those are not enough."""
    if len(row) <= longest:
        return row
    start, end = map(row.index, markers)
    left, mention, right = fitted(row[1:start], row[start + 1 : end], row[end + 1 : -1], longest - 4)
    return [row[0], *left, row[start], *mention, row[end], *right, row[-1]]


def all_behind(mentions: TokenRows, entities: TokenRows, mention_of: np.ndarray) -> SharedRows:
    """Put all rows of `entities` of a mention, without their first tokens, behind its row, one after the other.

    Args:
        mentions: m rows.
        entities: n rows, those of a mention together.
        mention_of: (n,), the number of the mention of each, ascending.

    Returns:
        A row for each mention that has an entity, and a spot for each entity.
    """
    own, row_of = np.unique(mention_of, return_inverse=True)
    heads, tails = mentions.take(own), _without_first(entities)
    first = np.searchsorted(row_of, np.arange(len(own) + 1))
    rows = _end_to_end(heads, TokenRows(tails.tokens, tails.offsets[first]))
    starts = heads.lengths[row_of] + tails.offsets[:-1] - tails.offsets[first[row_of]]
    return SharedRows(rows, np.column_stack([row_of, starts, starts + tails.lengths]))


def _without_first(rows: TokenRows) -> TokenRows:
    lengths = rows.lengths - 1
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
    return TokenRows(rows.tokens[stretches(rows.offsets[:-1] + 1, lengths)], offsets)


def _end_to_end(left: TokenRows, right: TokenRows) -> TokenRows:
    """Each row of `left` with that of `right` behind it."""
    offsets = left.offsets + right.offsets
    tokens = np.empty(offsets[-1], dtype="int32")
    tokens[stretches(offsets[:-1], left.lengths)] = left.tokens
    tokens[stretches(offsets[:-1] + left.lengths, right.lengths)] = right.tokens
    return TokenRows(tokens, offsets)
