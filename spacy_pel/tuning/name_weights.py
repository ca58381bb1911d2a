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
from ..search.weights import NameWeights

STEPS = 200
START = {NGRAM: 0.1, EXACT: 0.1, NAMES: 1.0}  # weights from which the fit begins


class GoldForms(NamedTuple):
    """A gold mention and all that a hybrid search has found for it.

    Attributes:
        mention: The gold mention.
        forms: What was found for the mention and, if it is an abbreviation, what for its long form.
    """

    mention: GoldMention
    forms: Sequence[Found]

    def ranked(self, weights: NameWeights) -> RankedMention:
        """The candidates as a linker with those weights ranks them: of the form whose best scores higher."""
        lists = [list(_ranked(found, weights)) for found in self.forms]
        best = max(lists, key=lambda one: one[0][1] if one else float("-inf"))
        return RankedMention(self.mention.ids, best, self.mention.form)

    def features(self, parts: Sequence[str]) -> np.ndarray:
        """The similarity and those other `parts` (n, 1 + parts) of the candidates of all forms."""
        return np.concatenate([_features(found, parts) for found in self.forms])

    def right(self) -> np.ndarray:
        """Whether each candidate (n,) of all forms is a correct entity."""
        return np.concatenate([np.isin(np.array(found.ids, dtype=str), self.mention.ids) for found in self.forms])


def _features(found: Found, parts: Sequence[str]) -> np.ndarray:
    if not found.ids:
        return np.empty((0, 1 + len(parts)))
    return np.column_stack([found.parts[part] for part in (SIMILARITY, *parts)])


def _ranked(found: Found, weights: NameWeights) -> Iterator[tuple[str, float]]:
    if not found.ids:
        return
    scores = weights.score(found.parts)
    for i in np.argsort(-scores, kind="stable").tolist():
        yield found.ids[i], float(scores[i])


def fit_weights(found: Sequence[GoldForms], parts: Sequence[str] | None = None) -> NameWeights:
    """The weights of greatest likelihood, where a mention means a candidate, of any of its forms, with a probability in
    proportion to exp(a · (similarity + weights · lexical)), and none of them in proportion to exp(b): a conditional
    logit (McFadden 1974) with an outside option. a, b and the weights, which are positive, are fitted by L-BFGS.

    A linker reads the form that scores higher, so its first candidate is the best over the candidates of both forms:
    those that compete here.

    Args:
        found: What was found for each mention.
        parts: What counts beside the similarity; None: all that the candidates have. The others weigh 0.

    Raises:
        PelError: Where no mention has its entity among its candidates.
    """
    if parts is None:
        parts = [part for part in START if any(part in form.parts for one in found for form in one.forms)]
    right_of = [one.right() for one in found]
    if not any(own.any() for own in right_of):
        raise PelError("no mention has its entity among its candidates: there is nothing to fit the lexical score to")
    owner = torch.as_tensor(np.repeat(np.arange(len(found)), list(map(len, right_of))))
    right = torch.as_tensor(np.concatenate(right_of))
    features = torch.as_tensor(np.concatenate([one.features(parts) for one in found]), dtype=torch.float64)
    without = torch.as_tensor([not own.any() for own in right_of])
    start = [1 / float(features[:, 0].std() + 1e-9), *(START[part] for part in parts)]
    logs = torch.log(torch.tensor(start, dtype=torch.float64))
    logs.requires_grad_()
    outside = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs, outside], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scale, *weights = logs.exp()
        logits = scale * (features @ torch.stack([torch.ones_like(scale), *weights]))
        everything = torch.logaddexp(_log_sums(logits, owner, len(found)), outside)
        good = torch.where(without, outside, _log_sums(logits[right], owner[right], len(found)))
        value = (everything - good).mean()
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
