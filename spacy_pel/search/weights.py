"""What the names of an entity add to the similarity of vectors: the setting `lexical`, and the score that it makes."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError


class Weights(NamedTuple):
    """What n-gram similarity and an exact match of a name weigh, where the similarity of the vectors weighs 1."""

    ngram: float
    exact: float

    def score(self, similarity: np.ndarray, lexical: np.ndarray) -> np.ndarray:
        """The weighted mean (n,) float32 of the similarity (n,) and both lexical features (n, 2): where the similarity
        is a cosine, at most 1, as that is."""
        return ((similarity + lexical @ np.array(self)) / (1 + sum(self))).astype(np.float32)


def check_lexical(value: Any, name: str) -> None:
    """RAISES: `PelError` for what is no value of the setting `lexical` of the component `name`."""
    if value in ("tuned", None):
        return
    is_weights = isinstance(value, dict) and set(value) == set(Weights._fields)
    if not is_weights or not all(isinstance(one, Real) and 0 <= float(one) < math.inf for one in value.values()):
        raise PelError(
            f'[components.{name}]: lexical = {value!r}; make it {{"ngram": 0.2, "exact": 0.1}} with weights from 0 up, '
            '"tuned", or null for none.'
        )
