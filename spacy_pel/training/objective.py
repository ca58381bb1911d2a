"""What is minimised, and one step of it: the gradients of a batch against its candidates, clean and adversarial."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from spacy.util import logger
from thinc.api import Model, get_torch_default_device, torch2xp, xp2torch
from thinc.types import Floats2d
from torch.nn.functional import pad

from ..checks import check_choice, check_flag, check_number, refused
from ..errors import PelError
from ..kb.several import Several
from ..models.encoder import token_batches, tower_module
from ..models.scoring.bags import given
from ..models.scoring.score import Score
from ..models.token_rows import TokenRows
from .adversarial import ALL, FGSM
from .adversarial import SECTION as FGSM_SECTION
from .distillation import Distillation
from .layouts import LAYOUTS, TrainingBatch
from .losses import Loss, ProxyLoss, score_gradient
from .negatives import NegativeSampler


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes:
        loss: Of the scores of a mention and its candidates.
        adversarial: The adversarial step; None: without.
        negatives: How negatives are drawn.
        layout: A key of `spacy_pel.training.layouts.LAYOUTS`.
        mask_names: The share of the mentions whose gold entity is read without the name that the mention has.
        freeze_entities: Whether only the mention tower learns.
        distillation: What is learnt of a ranker; None: nothing.

    Raises:
        PelError: The parts do not go together.
    """

    loss: Loss
    adversarial: FGSM | None
    negatives: NegativeSampler
    layout: str
    mask_names: float = 0.0
    freeze_entities: bool = False
    distillation: Distillation | None = None

    def __post_init__(self) -> None:
        _check_kind("loss", self.loss, "logit_scale", '"@misc": "spacy_pel.ProxyLoss.v1"')
        if self.adversarial is not None:
            _check_kind("adversarial", self.adversarial, "step", '"@misc": "spacy_pel.FGSM.v1"')
            if getattr(self.adversarial, "tokens", None) == ALL:
                raise PelError(f'{FGSM_SECTION}: tokens = "all" is of a pel_ranker; a pel_linker has "entity" only.')
        _check_kind("negatives", self.negatives, "sample", '"@misc": "spacy_pel.MixedNegatives.v1"')
        check_choice("[components.pel_linker]", "layout", self.layout, LAYOUTS)
        check_number("[components.pel_linker]", "mask_names", self.mask_names, least=0, most=1)
        check_flag("[components.pel_linker]", "freeze_entities", self.freeze_entities)
        if self.loss.needs_log_q and (self.layout != "per_mention" or self.negatives.draw != "iid"):
            raise PelError(
                "[components.pel_linker.loss]: spacy_pel.NCELoss.v1 corrects for independent draws; it needs "
                '[components.pel_linker] layout = "per_mention" and [components.pel_linker.negatives] draw = "iid" '
                "(of RandomNegatives: replace = true)."
            )
        if self.distillation is not None:
            _check_kind("distillation", self.distillation, "targets", '"@misc": "spacy_pel.Distillation.v1"')
        if not (self.negatives.n or (self.distillation is not None and self.distillation.n)):
            raise PelError(
                "[components.pel_linker.negatives]: n = 0 leaves mentions without negatives; make it larger, or take "
                "those of a file with [components.pel_linker.distillation]."
            )
        if self.loss.needs_log_q and self.distillation is not None:
            raise PelError(
                "[components.pel_linker.distillation]: the candidates of a ranker do not go with spacy_pel.NCELoss.v1: "
                "they are not drawn."
            )
        if self.loss.needs_log_q and self.negatives.in_batch:
            raise PelError(
                "[components.pel_linker.negatives]: in_batch does not go with spacy_pel.NCELoss.v1: those entities are "
                "not drawn."
            )

    @property
    def entities_stay(self) -> bool:
        """Whether a batch has the vectors of its entities from before: nothing is learnt of them, nor stepped on, nor
        masked in them."""
        return self.freeze_entities and self.adversarial is None and not self.mask_names

    def check_similarity(self, model: Model, name: str) -> None:
        """Check that the bi-encoder has the similarity that the loss is made for.

        Args:
            model: The bi-encoder.
            name: The component, for the message.

        Raises:
            PelError: It has another.
        """
        similarity = model.attrs["settings"]["similarity"]
        if similarity != self.loss.similarity:
            raise PelError(
                f"[components.{name}.model]: similarity = {similarity!r} does not go with the loss of "
                f"[components.{name}.loss], which needs {self.loss.similarity!r}."
            )


def _check_kind(key: str, value: Any, attribute: str, registered: str) -> None:
    if not hasattr(value, attribute):
        raise refused("[components.pel_linker]", key, value, f"make it a section with {registered}")


def with_origin(
    loss: ProxyLoss, parts: Iterable[tuple[Floats2d | Several, Floats2d | Several, TrainingBatch]], score: Score
) -> ProxyLoss:
    """Return `loss` with the origin that fits those mentions of a batch that have negatives, or as it is where none
    has.

    Args:
        loss: Without an origin.
        parts: Of the batch, one at least: what the towers have given for the mentions and entities, and what these are
            to each other.
        score: How pairs are scored.
    """
    device = get_torch_default_device()
    with torch.no_grad():
        own = [
            (
                batch.scores(score, given(mentions, xp2torch), given(entities, xp2torch)),
                torch.as_tensor(batch.positives, device=device),
                torch.as_tensor(batch.negatives, device=device),
            )
            for mentions, entities, batch in parts
        ]
        width = max(scores.shape[1] for scores, *_ in own)
        scores, positives, negatives = (
            torch.cat([pad(one, (0, width - one.shape[1])) for one in column]) for column in zip(*own, strict=True)
        )
        there = negatives.any(-1)
        if not there.any():
            return loss
        fitted = loss.fitted(scores[there], positives[there], negatives[there])
    logger.info("The origin of ProxyLoss is %.2f, by the first batch", fitted.origin)
    return fitted


def backpropagate(
    entity_tower: Model,
    mentions: Floats2d | Several,
    backprop_mentions: Callable[[Floats2d], Any],
    batch: TrainingBatch,
    entity_rows: TokenRows,
    score: Score,
    loss: Loss,
    adversarial: FGSM | None,
    distillation: Distillation | None = None,
) -> float:
    """Accumulate the gradients of one batch in both towers.

    Args:
        entity_tower: The tower that encodes `entity_rows`.
        mentions: What the mention tower has given for m mentions.
        backprop_mentions: Its callback.
        batch: The entities and what they are to each mention.
        entity_rows: The token rows of `batch.entity_places`, in that order.
        score: How pairs are scored.
        loss: Of these scores.
        adversarial: FGSM, or None.
        distillation: Its term is added to the loss; None: none is.

    Returns:
        The sum of the losses of the m mentions, L(m, P) + λ L(m, P_adv) with FGSM (eq. 8). The gradients are its.
    """
    learns = not tower_module(entity_tower).is_frozen
    is_train = learns or adversarial is not None  # else nothing goes back through the entity tower
    entities, backprop_entities = entity_tower(entity_rows, is_train)
    value, d_mentions, d_entities = loss_and_gradients(mentions, entities, batch, score, loss, distillation)
    d_inputs = backprop_entities(d_entities) if is_train else []
    if adversarial is not None:
        batches = token_batches(entity_tower, entity_rows)
        steps = [adversarial.step(gradient, rows.mask) for gradient, (_, rows) in zip(d_inputs, batches, strict=True)]
        entities, backprop_entities = entity_tower.begin_update(entity_rows.with_steps(steps))
        extra, d_mentions_extra, d_entities = loss_and_gradients(mentions, entities, batch, score, loss, distillation)
        if learns:
            backprop_entities(adversarial.weight * d_entities)
        value += adversarial.weight * extra
        d_mentions = d_mentions + adversarial.weight * d_mentions_extra
    backprop_mentions(d_mentions)
    return value


def loss_and_gradients(
    mentions: Floats2d | Several,
    entities: Floats2d | Several,
    batch: TrainingBatch,
    score: Score,
    loss: Loss,
    distillation: Distillation | None = None,
) -> tuple[float, Any, Any]:
    """Return the sum of the losses of m mentions, and its gradients by all their vectors (v, d) and by all those of the
    entities (u, d)."""
    device = get_torch_default_device()
    leaves: list[torch.Tensor] = []

    def leaf(vectors: Any, device: torch.device) -> torch.Tensor:
        leaves.append(xp2torch(vectors, requires_grad=True, device=device))
        return leaves[-1]

    scores = batch.scores(score, given(mentions, leaf), given(entities, leaf))
    positives = torch.as_tensor(batch.positives, device=device)
    negatives = torch.as_tensor(batch.negatives, device=device)
    fixed = scores.detach().requires_grad_()
    drawn = () if not loss.needs_log_q else (torch.as_tensor(batch.log_q, dtype=scores.dtype, device=device),)
    value = loss(fixed, positives, negatives, *drawn).sum()
    gradient = score_gradient(value, fixed, positives, negatives)
    if batch.targets is not None and distillation is not None:
        targets = torch.as_tensor(batch.targets, dtype=scores.dtype, device=device)
        taught = distillation.loss(fixed, targets, loss.logit_scale).sum()
        value, gradient = value + taught, gradient + torch.autograd.grad(taught, fixed)[0]
    scores.backward(gradient)
    d_mentions, d_entities = (torch2xp(own.grad) for own in leaves if own.grad is not None)
    return value.item(), d_mentions, d_entities
