"""What the names of an entity add to the similarity of vectors: the score of a hybrid search."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..checks import is_number, refused


class NameWeights(NamedTuple):
    """What the similarity of names and an exact match weigh, where the similarity of vectors weighs 1.

    Attributes:
        ngram: Of the similarity as 3-grams.
        exact: Of an exact match.
    """

    ngram: float
    exact: float

    def score(self, similarity: np.ndarray, lexical: np.ndarray) -> np.ndarray:
        """The weighted mean (n,) float32 of the similarity (n,) and both features of names (n, 2). Where the similarity
        is a cosine, it is at most 1."""
        return ((similarity + lexical @ np.array(self)) / (1 + sum(self))).astype(np.float32)

    def bounded(self) -> NameWeights:
        """The same, or in proportion to them where one is over `MOST`."""
        share = min(1.0, MOST / max(*self, 1.0))
        return NameWeights(*(min(weight * share, MOST) for weight in self))


NO_NAMES = NameWeights(0.0, 0.0)
MOST = 1e6  # what is fitted on a few mentions may be larger; more would leave the similarity no weight


def check_lexical(value: Any) -> None:
    """Check a value of the setting `lexical`.

    Raises:
        PelError: If it is not a dict of weights, "tuned" or None.
    """
    if not (value is None or (isinstance(value, str) and value == "tuned") or _is_weights(value)):
        raise refused(
            "[components.pel_linker]",
            "lexical",
            value,
            f'make it {{"ngram": 0.2, "exact": 0.1}} with weights from 0 to {MOST:,.0f}, "tuned", or null for none',
        )


def _is_weights(value: Any) -> bool:
    """Whether `value` is a dict of both weights, each from 0 to `MOST`."""
    return (
        isinstance(value, dict)
        and set(value) == set(NameWeights._fields)
        and all(is_number(one, least=0, most=MOST) for one in value.values())
    )
