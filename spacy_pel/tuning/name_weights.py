"""The weights of names beside the similarity of vectors, fitted to gold mentions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..mentions.gold import GoldMention
from ..mentions.ranked import RankedMention
from ..search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from ..search.search import Found
from ..search.weights import DEFAULT, NameWeights
from .choice import fit_choice

PARTS = (NGRAM, EXACT, NAMES)


class GoldFound(NamedTuple):
    """A gold mention and all that a hybrid search has found for it.

    Attributes:
        mention: The gold mention.
        found: Its candidates.
    """

    mention: GoldMention
    found: Found

    def ranked(self, weights: NameWeights) -> RankedMention:
        """The candidates as a linker with those weights ranks them."""
        return RankedMention(self.mention.ids, list(self._ranked(weights)), self.mention.form)

    def features(self, parts: Sequence[str]) -> np.ndarray:
        """The similarity and those other `parts` (n, 1 + parts) of the candidates."""
        if not self.found.ids:
            return np.empty((0, 1 + len(parts)))
        return np.column_stack([self.found.parts[part] for part in (SIMILARITY, *parts)])

    def right(self) -> np.ndarray:
        """Whether each candidate (n,) is a correct entity."""
        return np.isin(np.array(self.found.ids, dtype=str), self.mention.ids)

    def _ranked(self, weights: NameWeights) -> Iterator[tuple[str, float]]:
        if not self.found.ids:
            return
        scores = weights.score(self.found.parts)
        for i in np.argsort(-scores, kind="stable").tolist():
            yield self.found.ids[i], float(scores[i])


def fit_weights(
    found: Sequence[GoldFound], parts: Sequence[str] | None = None, *, prior: NameWeights = DEFAULT
) -> NameWeights:
    """The most probable weights of the similarity and of what names say beside it: see `fit_choice`.

    Args:
        found: What was found for each mention.
        parts: What counts beside the similarity; None: all that the candidates have. The others weigh 0.
        prior: The weights that stand where the mentions say nothing.

    Raises:
        PelError: Where no mention has its entity among its candidates.
    """
    if parts is None:
        parts = [part for part in PARTS if any(part in one.found.parts for one in found)]
    right_of = [one.right() for one in found]
    if not any(own.any() for own in right_of):
        raise PelError("no mention has its entity among its candidates: there is nothing to fit the lexical score to")
    fitted = fit_choice([one.features(parts) for one in found], right_of, [prior.weight_of(part) for part in parts])
    return NameWeights(**{NGRAM: 0.0, EXACT: 0.0} | dict(zip(parts, fitted.weights, strict=True))).bounded()
