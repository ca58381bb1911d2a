"""What a search says of a mention beside its best score: whether the KB has it, and whether the first is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .parts import EXACT, NAMES, NGRAM, SIMILARITY
from .search import Found, Scored

PARTS = {
    SIMILARITY: "similarity",
    NAMES: "similarity of names",
    NGRAM: "3-grams",
    EXACT: "exact name",
}
BEST_OF = (SIMILARITY, NAMES, NGRAM)
TEN = 10

EVIDENCE = (
    "score",
    "lead over the next",
    "lead over the mean of ten",
    *(f"{said} of the first" for said in PARTS.values()),
    *(f"best {PARTS[part]}" for part in BEST_OF),
    "entities with the name",
    "characters",
    "words",
    "capitals",
    "digits",
)
"""The columns of `evidence`. A part that no candidate has is 0; entities with the name, characters and words are
log(1 + n); capitals and digits are shares of the characters."""

LOOK = 4  # columns that are of the text
NOTHING = np.zeros(len(EVIDENCE), dtype=np.float32)


def evidence(scored: Scored, texts: Sequence[str]) -> np.ndarray:
    """What a search has found for q mentions, as (q, e) float32 with the columns `EVIDENCE`; zeros for one without
    candidates.

    Args:
        scored: All that was found, best first.
        texts: What was read, q of them.
    """
    table = np.zeros((len(texts), len(EVIDENCE)), dtype=np.float32)
    table[:, -LOOK:] = [_look(text) for text in texts]
    there = scored.counts.nonzero()[0]
    if len(there):
        table[there, :-LOOK] = _of_candidates(scored.first(None), there)
    return table


def evidence_of(found: Sequence[Found]) -> np.ndarray:
    """The evidence of n mentions, (n, e); zeros for one that cannot be read."""
    rows = [NOTHING if one.evidence is None else one.evidence for one in found]
    return np.array(rows).reshape(-1, len(EVIDENCE))


def _of_candidates(scored: Scored, there: np.ndarray) -> np.ndarray:
    """The columns (t, e - 4) of the queries `there` (t,), which have candidates, those of the first query first."""
    starts, counts = scored.starts[there], scored.counts[there]
    parts = {part: scored.parts.get(part, np.zeros(len(scored.rows), dtype=np.float32)) for part in PARTS}
    scores = scored.scores.astype(np.float64)
    sums, shown = np.append(0.0, scores.cumsum()), np.minimum(counts, TEN)
    first, ten = scores[starts], (sums[starts + shown] - sums[starts]) / shown
    after = scores[np.where(counts > 1, starts + 1, starts)]
    exact = np.add.reduceat((parts[EXACT] > 0).astype(np.float64), starts)
    return np.column_stack(
        [
            first,
            first - after,
            first - ten,
            *(parts[part][starts] for part in PARTS),
            *(np.maximum.reduceat(parts[part], starts) for part in BEST_OF),
            np.log1p(exact),
        ]
    )


def _look(text: str) -> tuple[float, float, float, float]:
    n = max(len(text), 1)
    capitals, digits = sum(map(str.isupper, text)) / n, sum(map(str.isdigit, text)) / n
    return float(np.log1p(len(text))), float(np.log1p(len(text.split()))), capitals, digits
