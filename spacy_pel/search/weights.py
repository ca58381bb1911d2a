"""What the names of an entity add to the similarity of vectors: the score of a hybrid search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..checks import is_number, refused
from .parts import EXACT, NAMES, NGRAM, SIMILARITY


class NameWeights(NamedTuple):
    """What the similarity of names and an exact match weigh, where the similarity of vectors weighs 1.

    Attributes:
        ngram: Of the similarity as 3-grams.
        exact: Of an exact match.
        names: Of the similarity of the vectors of names, where those of entities are searched too; None: 1.
    """

    ngram: float
    exact: float
    names: float | None = None

    @property
    def compare_texts(self) -> bool:
        """Whether the texts of names count."""
        return bool(self.ngram or self.exact)

    def score(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weighted mean (n,) float32 of the similarity and of those other parts (n,) that there are. Where the
        similarity is a cosine, it is at most 1."""
        weights = {NGRAM: self.ngram, EXACT: self.exact, NAMES: 1.0 if self.names is None else self.names}
        own = {part: weight for part, weight in weights.items() if part in parts}
        others = np.column_stack([parts[part] for part in own]) @ np.array(list(own.values())) if own else 0.0
        return ((parts[SIMILARITY] + others) / (1 + sum(own.values()))).astype(np.float32)

    def bounded(self) -> NameWeights:
        """The same, or in proportion to them where one is over `MOST`."""
        given = self.as_setting()
        share = min(1.0, MOST / max(*given.values(), 1.0))
        return NameWeights(**{part: min(weight * share, MOST) for part, weight in given.items()})

    def as_setting(self) -> dict[str, float]:
        """As a value of the setting `lexical`."""
        return {part: weight for part, weight in self._asdict().items() if weight is not None}


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
    """Whether `value` is a dict of weights, from 0 to `MOST`: that of names may be missing."""
    return (
        isinstance(value, dict)
        and {NGRAM, EXACT} <= set(value) <= {NGRAM, EXACT, NAMES}
        and all(is_number(one, least=0, most=MOST) for one in value.values())
    )
