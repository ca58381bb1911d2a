"""The weights of names beside the similarity of vectors, fitted to gold mentions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..errors import PelError
from ..mentions.gold import GoldMention
from ..mentions.ranked import RankedMention
from ..search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from ..search.search import Found
from ..search.weights import DEFAULT, NameWeights

STEPS = 200
PARTS = (NGRAM, EXACT, NAMES)
SPREAD, FREEDOM = 0.25, 3.0  # of the prior of the logarithm of a weight: see `fit_weights`


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
    """The most probable weights, where a mention means a candidate with a probability in proportion to
    exp(a · (similarity + weights · lexical)), and none of them in proportion to exp(b): a conditional logit (McFadden
    1974) with an outside option. a, b and the weights, which are positive, are fitted by L-BFGS.

    The logarithm of each weight has a Student's t prior around that of `prior`, with the scale `SPREAD` and `FREEDOM`
    degrees of freedom: few mentions hardly move a weight, and many move it as far as they say.

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
    owner = torch.as_tensor(np.repeat(np.arange(len(found)), list(map(len, right_of))))
    right = torch.as_tensor(np.concatenate(right_of))
    features = torch.as_tensor(np.concatenate([one.features(parts) for one in found]), dtype=torch.float64)
    without = torch.as_tensor([not own.any() for own in right_of])
    scale = 1 / float(features[:, 0].std(correction=0) + 1e-9)
    start = torch.tensor([scale, *map(prior.weight_of, parts)], dtype=torch.float64).log()
    logs = start.clone().requires_grad_()
    outside = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs, outside], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scale, *weights = logs.exp()
        logits = scale * (features @ torch.stack([torch.ones_like(scale), *weights]))
        everything = torch.logaddexp(_log_sums(logits, owner, len(found)), outside)
        good = torch.where(without, outside, _log_sums(logits[right], owner[right], len(found)))
        away = (FREEDOM + 1) / 2 * torch.log1p(((logs - start)[1:] / SPREAD).square() / FREEDOM).sum()
        value = (everything - good).mean() + away / len(found)
        value.backward()
        return value

    optimizer.step(loss)
    fitted = dict(zip(parts, logs.detach().exp()[1:].tolist(), strict=True))
    return NameWeights(**{NGRAM: 0.0, EXACT: 0.0} | fitted).bounded()


def _log_sums(values: torch.Tensor, owner: torch.Tensor, n: int) -> torch.Tensor:
    """log Σ exp of the `values` (m,) of each `owner` (m,), (n,); a very small number for one without any."""
    most = torch.full((n,), -1e9, dtype=values.dtype).scatter_reduce(0, owner, values.detach(), "amax")
    sums = torch.zeros(n, dtype=values.dtype).index_add(0, owner, (values - most[owner]).exp())
    return most + sums.clamp_min(1e-300).log()
