"""A training of a cross-encoder: mentions with their candidates in, its gradients out (Wiatrak et al. 2022, appendix
B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from spacy.tokens import Span
from thinc.api import Model, get_torch_default_device, to_numpy, torch2xp, xp2torch
from thinc.types import Floats2d

from ..kb.entity import Entity
from ..models.cross_encoder import behind_separator, pair_tower, rows_of_pairs
from ..models.encoder import predicts_as_it_learns, set_layer, token_batches
from ..models.token_rows import TokenRows
from .adversarial import ALL, FGSM
from .gradients import Session
from .losses import CrossEntropyLoss, score_gradient

LOSS = CrossEntropyLoss()  # over the candidates of a mention: eq. 1
NEGLIGIBLE = 0.01  # The share of what the loss asks of the scores of a batch that its gradients may leave out


class Choice(NamedTuple):
    """A mention and what it is chosen among.

    Attributes:
        span: The mention.
        candidates: The entities, of which one at least is right.
        right: Whether each candidate (c,) is right.
        wrong: Whether it is wrong; one that is neither takes no part.
    """

    span: Span
    candidates: Sequence[Entity]
    right: Sequence[bool]
    wrong: Sequence[bool]


class RankingSession(Session):
    """Updates a cross-encoder.

    Without FGSM all pairs of a batch are scored as predictions are, and only those that the loss asks to score
    otherwise are read once more for their gradients: of the others the loss has nothing to learn. Soon that are few, as
    most candidates are clearly wrong, and a pass with gradients takes three times as long as one without.

    Attributes:
        adversarial: FGSM, or None.
    """

    def __init__(self, model: Model, adversarial: FGSM | None) -> None:
        super().__init__(model, "pel_ranker")
        self.adversarial = adversarial
        if adversarial is not None:
            set_layer(model, adversarial.layer, "[components.pel_ranker.adversarial]")

    def modules(self) -> list[torch.nn.Module]:
        """See `Session`."""
        return [pair_tower(self.model)]

    def accumulate(self, choices: Sequence[Choice]) -> float:
        """Add the gradients of a batch of mentions to the model's. If anything is raised, all that was accumulated
        since the latest update is dropped.

        Returns:
            The mean of their losses, L(m, P) + λ L(m, P_adv) with FGSM (eq. 8); 0.0 without any.
        """
        if not choices:
            return 0.0
        with self.dropped_on_error():
            value = self._accumulate(choices)
        self.added(len(choices), value)
        return value / len(choices)

    def _accumulate(self, choices: Sequence[Choice]) -> float:
        """Add the gradients of `choices`, and return the sum of their losses."""
        rows = rows_of_pairs(self.model, [one.span for one in choices], [one.candidates for one in choices])
        if self.adversarial is None and isinstance(rows, TokenRows) and predicts_as_it_learns(self.model):
            return self._accumulate_some(rows, choices)
        scores, backprop = self.model.begin_update(rows)
        value, d_scores = loss_and_gradient(scores, choices)
        d_inputs = backprop(d_scores)
        if self.adversarial is not None:
            scores, backprop = self.model.begin_update(rows.with_steps(self._steps(rows, d_inputs)))
            extra, d_scores = loss_and_gradient(scores, choices)
            backprop(self.adversarial.weight * d_scores)
            value += self.adversarial.weight * extra
        return value

    def _accumulate_some(self, rows: TokenRows, choices: Sequence[Choice]) -> float:
        """As `_accumulate`, with the gradients of the pairs that have all but a negligible share of them."""
        value, d_scores = loss_and_gradient(self.model.predict(rows), choices)
        some = weighty(to_numpy(d_scores)[:, 0], NEGLIGIBLE)
        _, backprop = self.model.begin_update(rows.take(some))
        backprop(d_scores[self.model.ops.xp.asarray(some)])
        return value

    def _steps(self, rows: Any, d_inputs: Sequence[Any]) -> list[Any]:
        """The FGSM steps of the batches of `rows`, on the entity's part of each row or all of it: for the right
        candidate down its score, for the others up theirs, which is up the loss for all."""
        assert self.adversarial is not None
        separator = pair_tower(self.model).separator
        whole = getattr(self.adversarial, "tokens", None) == ALL
        return [
            self.adversarial.step(gradient, batch.mask & (whole | behind_separator(batch.ids, separator)))
            for gradient, (_, batch) in zip(d_inputs, token_batches(self.model, rows), strict=True)
        ]


def weighty(gradient: np.ndarray, negligible: float) -> np.ndarray:
    """The places, ascending, of the fewest values of `gradient` (n,), one at least, without which no more than a share
    of `negligible` of the sum of their sizes is left out."""
    sizes = np.abs(gradient)
    order = np.argsort(sizes)
    left_out = np.cumsum(sizes[order]) <= negligible * sizes.sum()
    left_out[-1:] = False
    return np.sort(order[~left_out])  # all where sizes are not finite


def loss_and_gradient(scores: Floats2d, choices: Sequence[Choice]) -> tuple[float, Floats2d]:
    """Return the sum of the losses of m mentions, and its gradient by the `scores` (pairs, 1), mention by mention."""
    flat = xp2torch(scores, device=get_torch_default_device())[:, 0]
    counts = [len(one.candidates) for one in choices]
    there = torch.as_tensor(np.arange(max(counts)) < np.array(counts)[:, None], device=flat.device)
    right, wrong = (
        _padded(there, [flag for one in choices for flag in getattr(one, key)]) for key in ("right", "wrong")
    )
    table = torch.zeros(there.shape, dtype=flat.dtype, device=flat.device)
    table[there] = flat
    table.requires_grad_()
    value = LOSS(table, right, wrong).sum()
    gradient: Any = torch2xp(score_gradient(value, table, right, wrong)[there][:, None].contiguous())
    return value.item(), gradient


def _padded(there: torch.Tensor, flags: Sequence[bool]) -> torch.Tensor:
    padded = torch.zeros_like(there)
    padded[there] = torch.as_tensor(flags, dtype=torch.bool, device=there.device)
    return padded
