"""Losses as pure functions of a score matrix and two masks, and the config names that choose one.

All take `scores` (m, c) and the bool masks `positives` and `negatives` (m, c), and return (m,) losses, one a mention.
A candidate that is in neither mask takes no part. A mention without negatives keeps its positive term; one without
positives keeps its negative term. Under a softmax both terms are then 0.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import softplus

from ..errors import PelError

MASKED = -1e30  # finite, so that a row with no negatives has gradient 0 and not nan
SMALLEST_GRADIENT = 1e-20


def proxy_loss(
    scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, alpha: float = 32.0, margin: float = 0.0
) -> torch.Tensor:
    """The proxy-based loss Pb (Wiatrak et al. 2022, eq. 3), for cosine scores in [-1, 1]. Use it by default: it does
    not need the negatives to be hard, and its absolute scale makes a threshold for NIL meaningful.

        softplus(-α (s⁺ - δ)) + log(1 + Σ exp(α (s⁻ + δ)))

    alpha: α, the inverse temperature. margin: δ.

    Gradients (eq. 4): ∂/∂s⁺ = -α exp(-α(s⁺-δ)) / (1 + exp(-α(s⁺-δ))), ∂/∂s⁻ = α exp(α(s⁻+δ)) / (1 + Σ exp(α(s⁻+δ))).
    """
    pull = (softplus(-alpha * (scores - margin)) * positives).sum(-1)
    logits = (alpha * (scores + margin)).masked_fill(~negatives, MASKED)
    push = torch.logsumexp(torch.cat([logits.new_zeros(len(logits), 1), logits], dim=-1), dim=-1)
    return pull + push


def cross_entropy_loss(scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """Softmax cross-entropy over {e⁺} ∪ P⁻ (Wiatrak et al. 2022, eq. 1-2), for dot products: the yardstick.

        log(exp s⁺ + Σ exp s⁻) - s⁺  =  softplus(log Σ exp s⁻ - s⁺)

    Gradients: ∂/∂s⁺ = p⁺ - 1, ∂/∂s⁻ = p⁻, where p is the softmax.
    """
    others = torch.logsumexp(scores.masked_fill(~negatives, MASKED), dim=-1, keepdim=True)
    return (softplus(others - scores) * positives).sum(-1)


def nce_loss(
    scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, log_q: torch.Tensor
) -> torch.Tensor:
    """Ranking noise contrastive estimation, corrected for the bias of its draws (Zhang & Stratos 2021, section 2), for
    dot products. Use it to see what the correction does: it estimates the softmax over all that can be drawn, which is
    the whole KB as long as some draws are random (p < 100). Its authors found no better recall than with
    `cross_entropy_loss`.

        softplus(log Σ exp(s⁻ - log((K - 1) q⁻)) - s⁺)

    log_q (m, c): log q(e⁻|m), the probability with which each negative was drawn, independently of the others. K - 1:
    the number of a mention's negatives.

    Gradients: those of `cross_entropy_loss` at the corrected scores.
    """
    correction = (log_q + negatives.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype).log()).masked_fill(
        ~negatives, 0.0
    )
    return cross_entropy_loss(scores - correction, positives, negatives)


@dataclass(frozen=True)
class ProxyLoss:
    alpha: float
    margin: float
    similarity = "cosine"
    needs_log_q = False

    @property
    def logit_scale(self) -> float:
        """What a score is multiplied by in the loss's softmax over negatives."""
        return self.alpha

    def __call__(self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        return proxy_loss(scores, positives, negatives, self.alpha, self.margin)


@dataclass(frozen=True)
class CrossEntropyLoss:
    similarity = "dot"
    logit_scale = 1.0
    needs_log_q = False

    def __call__(self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        return cross_entropy_loss(scores, positives, negatives)


@dataclass(frozen=True)
class NCELoss:
    similarity = "dot"
    logit_scale = 1.0
    needs_log_q = True

    def __call__(
        self, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, log_q: torch.Tensor
    ) -> torch.Tensor:
        return nce_loss(scores, positives, negatives, log_q)


def score_gradient(
    loss: torch.Tensor, scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """∂ loss / ∂ scores (m, c), kept at `SMALLEST_GRADIENT` or more in size and of its proper sign: where the score of
    a well separated pair has an exact 0 in float32, the sign of the gradient, which FGSM follows, would be lost."""
    (gradient,) = torch.autograd.grad(loss, scores)
    gradient = torch.where(positives, gradient.clamp(max=-SMALLEST_GRADIENT), gradient)
    return torch.where(negatives, gradient.clamp(min=SMALLEST_GRADIENT), gradient)


def make_proxy_loss(alpha: float = 32.0, margin: float = 0.0) -> ProxyLoss:
    """`spacy_pel.ProxyLoss.v1`: see `proxy_loss`."""
    if alpha <= 0:
        raise PelError(f"[components.pel_linker.loss]: alpha = {alpha} must be more than 0, or nothing is learnt.")
    return ProxyLoss(alpha, margin)


def make_cross_entropy_loss() -> CrossEntropyLoss:
    """`spacy_pel.CrossEntropyLoss.v1`: see `cross_entropy_loss`."""
    return CrossEntropyLoss()


def make_nce_loss() -> NCELoss:
    """`spacy_pel.NCELoss.v1`: see `nce_loss`. It goes with negatives of `draw = "iid"` in the layout "per_mention"."""
    return NCELoss()
