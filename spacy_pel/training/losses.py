"""The losses: of a score matrix and two masks, one value a mention.

All take `scores` (m, c) and the bool masks `positives` and `negatives` (m, c), and return (m,) losses. A candidate that
is in neither mask takes no part. A mention without negatives keeps its positive term; one without positives keeps its
negative term. Under a softmax both terms are then 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch.nn.functional import softplus

from ..checks import check_choice, check_number, refused
from ..models.scoring.dual import SIMILARITIES
from ..models.scoring.score import MASKED

SMALLEST_GRADIENT = 1e-20
SECTION = "[components.pel_linker.loss]"
LARGEST_ALPHA = 10_000
AUTO = "auto"
ORIGINS = [i / 100 for i in range(-100, 101)]  # that "auto" chooses from


@dataclass(frozen=True)
class ProxyLoss:
    """The proxy-based loss Pb (Wiatrak et al. 2022, eq. 3), for cosine scores in [-1, 1].

    Use it by default: it does not need the negatives to be hard, and its absolute scale makes a threshold for NIL
    meaningful.

        softplus(-α (s⁺ - δ)) + log(1 + Σ exp(α (s⁻ + δ)))

    Gradients (eq. 4): ∂/∂s⁺ = -α exp(-α(s⁺-δ)) / (1 + exp(-α(s⁺-δ))), ∂/∂s⁻ = α exp(α(s⁻+δ)) / (1 + Σ exp(α(s⁻+δ))).

    Attributes:
        alpha: α, the inverse temperature.
        margin: δ.
        origin: Taken from every score before. The paper's is 0: it parts right and wrong at a cosine of 0. Those of a
            pretrained encoder lie around another number, and training has to move them first. "auto": a training takes
            the number by which the loss of those mentions of its first batch that have negatives is least, before it
            changes anything (see `fitted`); that is the default of `pel_linker`. Until a batch has some, it is 0.

    Raises:
        PelError: alpha is not more than 0, margin no difference of two cosines, or origin neither a cosine nor "auto".
    """

    alpha: float = 32.0
    margin: float = 0.0
    origin: float | str = 0.0
    similarity: ClassVar[str] = "cosine"
    needs_log_q: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(SECTION, "alpha", self.alpha, over=0, most=LARGEST_ALPHA)
        check_number(SECTION, "margin", self.margin, least=-2, most=2)
        if self.origin != AUTO:
            check_number(SECTION, "origin", self.origin, least=-1, most=1, hint=f', or "{AUTO}"')

    @property
    def logit_scale(self) -> float:
        """What a score is multiplied by in the loss's softmax over negatives."""
        return self.alpha

    def fitted(self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> ProxyLoss:
        """Return the loss with the origin, to two digits, whose sum over these mentions is least."""
        losses = [replace(self, origin=origin) for origin in ORIGINS]
        return min(losses, key=lambda loss: loss(scores, positives, negatives).sum().item())

    def __call__(self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        """Return the loss (m,) of every mention.

        Raises:
            PelError: The origin is "auto" still.
        """
        if isinstance(self.origin, str):
            raise refused(SECTION, "origin", self.origin, "it is fitted by a training; call fitted() of the loss first")
        scores = scores - self.origin
        pull = (softplus(-self.alpha * (scores - self.margin)) * positives).sum(-1)
        logits = (self.alpha * (scores + self.margin)).masked_fill(~negatives, MASKED)
        push = torch.logsumexp(torch.cat([logits.new_zeros(len(logits), 1), logits], dim=-1), dim=-1)
        return pull + push


@dataclass(frozen=True)
class CrossEntropyLoss:
    """Softmax cross-entropy over {e⁺} ∪ P⁻ (Wiatrak et al. 2022, eq. 1-2): the yardstick.

        log(exp s⁺ + Σ exp s⁻) - s⁺  =  softplus(log Σ exp s⁻ - s⁺)

    Gradients: ∂/∂s⁺ = p⁺ - 1, ∂/∂s⁻ = p⁻, where p is the softmax.

    Attributes:
        scale: What scores are multiplied by before; the gradients too. The paper has 1, for dot products; cosines need
            more than that, such as 32, to be told apart.
        similarity: "dot", or "cosine".

    Raises:
        PelError: scale is not more than 0, or there is no such similarity.
    """

    scale: float = 1.0
    similarity: str = "dot"
    needs_log_q: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(SECTION, "scale", self.scale, over=0, most=LARGEST_ALPHA)
        check_choice(SECTION, "similarity", self.similarity, SIMILARITIES)

    @property
    def logit_scale(self) -> float:
        """What a score is multiplied by in the loss's softmax over negatives."""
        return self.scale

    def __call__(self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        """Return the loss (m,) of every mention."""
        scores = self.scale * scores
        others = torch.logsumexp(scores.masked_fill(~negatives, MASKED), dim=-1, keepdim=True)
        return (softplus(others - scores) * positives).sum(-1)


@dataclass(frozen=True)
class NCELoss:
    """Ranking noise contrastive estimation, corrected for the bias of its draws (Zhang & Stratos 2021, section 2), for
    dot products.

    Use it to see what the correction does: it estimates the softmax over all that can be drawn, which is the whole KB
    as long as some draws are random (p < 100). Its authors found no better recall than with `CrossEntropyLoss`. It goes
    with negatives of `draw = "iid"` in the layout "per_mention".

        softplus(log Σ exp(s⁻ - log((K - 1) q⁻)) - s⁺)

    Here q⁻ is the probability with which a negative was drawn, independently of the others, and K - 1 the number of a
    mention's negatives. Gradients: those of `CrossEntropyLoss` at the corrected scores.
    """

    similarity: ClassVar[str] = "dot"
    logit_scale: ClassVar[float] = 1.0
    needs_log_q: ClassVar[bool] = True

    def __call__(
        self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, log_q: torch.Tensor
    ) -> torch.Tensor:
        """Return the loss (m,) of every mention; log_q: (m, c), log q of every negative."""
        drawn = negatives.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        correction = (log_q + drawn.log()).masked_fill(~negatives, 0.0)
        return CrossEntropyLoss()(scores - correction, positives, negatives)


Loss = ProxyLoss | CrossEntropyLoss | NCELoss


def score_gradient(
    loss: torch.Tensor, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """Return ∂ loss / ∂ scores (m, c), kept at `SMALLEST_GRADIENT` or more in size and of its proper sign.

    Where the score of a well separated pair has an exact 0 in float32, the sign of the gradient, which FGSM follows,
    would be lost.
    """
    (gradient,) = torch.autograd.grad(loss, scores)
    gradient = torch.where(positives, gradient.clamp(max=-SMALLEST_GRADIENT), gradient)
    return torch.where(negatives, gradient.clamp(min=SMALLEST_GRADIENT), gradient)
