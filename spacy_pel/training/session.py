"""A training: gold mentions in, gradients of a bi-encoder out. It keeps what steps share, and the random draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from spacy.tokens import Span
from spacy.training import Example
from thinc.api import Model

from ..errors import PelError
from ..kb.allowed import Allowed
from ..kb.knowledge_base import KnowledgeBase
from ..kb.numbering import EntityPlaces, both_ways
from ..kb.several import Vectors
from ..mentions.gold import GoldMention, mentions_to_learn, with_successors
from ..models.bi_encoder import row_builder, score_of
from ..models.encoder import set_layer, tower_module
from ..models.encoding import in_numpy
from ..models.listener import lent_states, listens
from ..models.token_rows import TokenRows
from ..search.find import AllowedFor
from ..search.live import LiveIndex, LivePart
from ..search.rescored import Rescored
from .adversarial import SECTION as FGSM_SECTION
from .distillation import Taught, mention_key, with_targets, with_taught
from .gradients import Session
from .layouts import LAYOUTS, TrainingBatch
from .losses import AUTO, Loss, ProxyLoss
from .masking import with_masked_names
from .negatives import DrawnNegatives
from .objective import Objective, backpropagate, loss_and_gradients, with_origin
from .waiting import waiting_for_refresh, waiting_for_targets


class LatestDraw(NamedTuple):
    """The hard negatives of m mentions of a batch, or of its last part.

    Attributes:
        queries: The vectors of the mentions, as they were encoded for the draw.
        not_wrong: For each the numbers of the entities in `part` that are no negatives of it.
        hard: (m, h), the numbers of its hard negatives; -1 where it has fewer than another.
        part: The entities that they were drawn from.
        age: The updates between the latest refresh and the draw.
    """

    queries: Vectors
    not_wrong: Sequence[Sequence[int]]
    hard: np.ndarray
    part: LivePart
    age: int


class _Part(NamedTuple):
    """Mentions of a batch that may mean the same entities, and what they are trained against.

    Attributes:
        mentions: What the mention tower has given for them.
        backprop: Its callback.
        batch: The candidates.
        entity_rows: The token rows of these; None where the entities stay as they are.
    """

    mentions: Any
    backprop: Callable
    batch: TrainingBatch
    entity_rows: TokenRows | None


class TrainingSession(Session):
    """Updates a bi-encoder on gold mentions. All randomness of its own comes from `seed`.

    Attributes:
        kb: Its entities are the candidates.
        objective: What becomes less.
        live: The KB under the present weights.
        loss: That of the objective; from the first batch with negatives on with the origin that it has been given.
        latest_batch: The candidates that the mentions of the latest batch, or of its last part, were trained against.
        latest_draw: Their hard negatives, if there are any.
    """

    def __init__(
        self, model: Model, kb: KnowledgeBase, objective: Objective, seed: int, loss: Loss | None = None
    ) -> None:
        """Begin, or go on.

        Args:
            model: A bi-encoder.
            kb: Its entities are the candidates.
            objective: What is to become less.
            seed: Of the draws.
            loss: That of the objective with the origin that an earlier session has fitted; None: the first batch fits
                it.
        """
        super().__init__(model, "pel_linker")
        self.kb = kb
        self.objective = objective
        self.loss: Loss = objective.loss if loss is None else loss
        self.live = LiveIndex(model, kb)
        self.latest_batch: TrainingBatch | None = None
        self.latest_draw: LatestDraw | None = None
        self._rng = np.random.default_rng(seed)
        self._same_concepts = both_ways(self.live.places_of(kb.same_concepts()))
        distillation = objective.distillation
        self._targets = {} if distillation is None else distillation.targets()
        self._targets_come = None if distillation is None else waiting_for_targets(distillation.path)
        self._n_taught = 0  # mentions that have targets
        self._refreshed = waiting_for_refresh()
        if objective.adversarial is not None:
            set_layer(model.get_ref("entity_tower"), objective.adversarial.layer, FGSM_SECTION)
        self._set_frozen()

    def modules(self) -> list[torch.nn.Module]:
        """See `Session`."""
        return [tower_module(tower) for tower in self.model.layers]

    def _set_frozen(self) -> None:
        """Let the entity tower have gradients, or none where it is frozen."""
        entity_tower = self.model.get_ref("entity_tower")
        if self.objective.freeze_entities and entity_tower is self.model.get_ref("mention_tower"):
            raise PelError(
                "[components.pel_linker]: freeze_entities does not go with shared_towers = true: one of the two."
            )
        tower_module(entity_tower).requires_grad_(not self.objective.freeze_entities)

    def learn(
        self, examples: Sequence[Example], use_gold_ents: bool, spans_key: str | None, allowed_for: AllowedFor
    ) -> float:
        """`accumulate` for the `training_mentions` of `examples`, read in their predicted Docs where a `transformer`
        pipe has read these."""
        mentions = mentions_to_learn(examples, use_gold_ents, spans_key, predicted=listens(self.model))
        with lent_states(self.model, [eg.predicted for eg in examples]):
            return self.accumulate(mentions, allowed_for)

    def accumulate(self, mentions: Sequence[GoldMention], allowed_for: AllowedFor = lambda label: None) -> float:
        """Add the gradients of a batch of mentions to the model's. Mentions that the KB has no entity for which their
        label allows, or none that it had when the session began, and empty ones, give no loss. Neither a mention's
        correct entities nor those of the same concepts are its negatives, nor are entities that its label does not
        allow: mentions of labels that allow different ones are trained apart, each part against candidates of its own.
        If anything is raised, all that was accumulated since the latest update is dropped.

        Args:
            mentions: With their correct ids.
            allowed_for: From a label to what entities must have; None: any will do.

        Returns:
            The mean loss of the mentions that have such an entity; 0.0 if there are none.
        """
        if not self.objective.freeze_entities:
            self.live.drop_spare()  # no more scores and no refresh before the next update
        by_allowed: dict[Allowed | None, list[GoldMention]] = defaultdict(list)
        for mention in with_successors(mentions, self.kb):
            by_allowed[allowed_for(mention.span.label_)].append(mention)
        taught_before = self._n_taught
        with self.dropped_on_error():
            found = [self._part(own, allowed) for allowed, own in by_allowed.items()]
            parts = [part for part in found if part is not None]
            self._fit_origin(parts)
            loss = sum(map(self._backpropagate, parts))
        n_mentions = sum(len(part.batch.gold) for part in parts)
        self.added(n_mentions, loss)
        if n_mentions and self._targets_come is not None:
            self._targets_come(self._n_taught > taught_before)
        return loss / max(n_mentions, 1)

    def _part(self, mentions: Sequence[GoldMention], allowed: Allowed | None) -> _Part | None:
        """Encode `mentions`, and draw what they are trained against among the entities that are `allowed` (None: all);
        None where no mention has such an entity."""
        places = self.live.places_by_id({id_ for mention in mentions for id_ in mention.ids})
        part = self.live.part(allowed)
        known = [[places[id_] for id_ in mention.ids if id_ in places] for mention in mentions]
        correct = part.within(known)
        rows = row_builder(self.model).mentions([mention.span for mention in mentions])
        used = [i for i in rows.lengths.nonzero()[0].tolist() if correct[i]]
        if not used:
            return None
        correct, known = [correct[i] for i in used], [known[i] for i in used]
        not_wrong = [[*own, *(other for one in own for other in self._same_concepts.get(one, ()))] for own in known]
        mention_tower = self.model.get_ref("mention_tower")
        vectors, backprop = mention_tower.begin_update(rows.take(used))
        objective = self.objective
        negatives = self._draw(not_wrong, in_numpy(vectors), part)
        gold = EntityPlaces(np.array([self._rng.choice(own) for own in correct]))
        distillation, taught = objective.distillation, self._taught([mentions[i].span for i in used])
        if distillation is not None:
            within = part.within([list(own) for own in taught])
            scored = [{place: own[place] for place in some} for own, some in zip(taught, within, strict=True)]
            negatives = with_taught(negatives, scored, not_wrong, distillation.n)
        batch = LAYOUTS[objective.layout](gold, not_wrong, negatives, objective.negatives.in_batch)
        if distillation is not None:
            batch = with_targets(batch, taught)
        self.latest_batch = batch
        forms = [mentions[i].span.text for i in used]
        entity_rows = None if objective.entities_stay else self._candidate_rows(batch, gold, forms)
        return _Part(vectors, backprop, batch, entity_rows)

    def _backpropagate(self, part: _Part) -> float:
        """Add the gradients of a part of a batch, and return the sum of the losses of its mentions."""
        objective, score, loss = self.objective, score_of(self.model), self._loss_now
        if part.entity_rows is None:
            value, d_mentions, _ = loss_and_gradients(
                part.mentions, self._known_vectors(part), part.batch, score, loss, objective.distillation
            )
            part.backprop(d_mentions)
            return value
        return backpropagate(
            self.model.get_ref("entity_tower"),
            part.mentions,
            part.backprop,
            part.batch,
            part.entity_rows,
            score,
            loss,
            objective.adversarial,
            objective.distillation,
        )

    def _known_vectors(self, part: _Part) -> Any:
        """The vectors of the candidates of a part whose entities stay as they are."""
        return self.live.vectors(EntityPlaces(part.batch.entity_places))

    @property
    def _loss_now(self) -> Loss:
        """The loss of a batch; as long as none had negatives to fit an origin to, with that of the paper."""
        return replace(self.loss, origin=0.0) if _lacks_origin(self.loss) else self.loss

    def _fit_origin(self, parts: Sequence[_Part]) -> None:
        """Give the loss the origin that fits a batch, if it lacks one."""
        if not parts or not _lacks_origin(self.loss):
            return
        predict = self.model.get_ref("entity_tower").predict
        encoded = (
            self._known_vectors(part) if part.entity_rows is None else predict(part.entity_rows) for part in parts
        )
        found = ((part.mentions, entities, part.batch) for part, entities in zip(parts, encoded, strict=True))
        self.loss = with_origin(self.loss, found, score_of(self.model))

    def _draw(self, not_wrong: Sequence[Sequence[int]], queries: Vectors, part: LivePart) -> DrawnNegatives:
        """Draw from `part` the negatives of m mentions, none of the places `not_wrong`, for their vectors."""
        sampler, not_wrong = self.objective.negatives, part.numbers_of(not_wrong)
        index = Rescored(part, sampler.rescored, part.scores) if sampler.rescored else part
        drawn = sampler.sample(self._rng, not_wrong, len(part), queries, index, self.objective.loss.logit_scale)
        if sampler.n_hard:
            self.latest_draw = LatestDraw(queries, not_wrong, drawn.hard(), part, self.live.age)
        return drawn._replace(places=part.places_of(drawn.places))

    def _taught(self, spans: Sequence[Span]) -> list[Taught]:
        """What the ranker says of each mention; nothing where it was not asked."""
        if not self._targets:
            return [{} for _ in spans]
        told = [self._targets.get(mention_key(span)) for span in spans]
        self._n_taught += sum(one is not None for one in told)
        place_of = self.live.places_by_id({id_ for one in told if one is not None for id_ in one.ids})
        pairs = [() if one is None else zip(one.ids, one.scores.tolist(), strict=True) for one in told]
        return [{place_of[id_]: score for id_, score in own if id_ in place_of} for own in pairs]

    def _candidate_rows(self, batch: TrainingBatch, gold: EntityPlaces, forms: Sequence[str]) -> TokenRows:
        """The token rows of `batch`; of a share of the `gold` (m,), without the names that are `forms` (m)."""
        rows = self.live.token_rows.take(batch.entity_places)
        if not self.objective.mask_names:  # nothing is drawn either, so that other draws stay as they were
            return rows
        masked = (self._rng.random(len(gold)) < self.objective.mask_names).nonzero()[0]
        if not len(masked):
            return rows
        ids = self.kb.ids(self.live.rows_of(EntityPlaces(gold[masked]))).tolist()
        known = self.kb.get_many(ids)
        entities = [known[id_] for id_ in ids]
        builder = row_builder(self.model)
        return with_masked_names(rows, batch.gold[masked], entities, [forms[i] for i in masked], builder)

    def refresh_negatives(self, sample: int = 0) -> None:
        """Encode the KB again, or `sample` entities of it, drawn anew, among which hard negatives are then searched.
        0, or as many as there are: all."""
        if not self.objective.negatives.n_hard:
            return
        self._refreshed(True)
        drawn = None
        if 0 < sample < len(self.live):
            drawn = EntityPlaces(np.sort(self._rng.choice(len(self.live), sample, replace=False)))
        self.live.refresh(drawn)

    def updated(self) -> None:
        """Note that the weights have changed."""
        for tower in self.model.layers:
            tower_module(tower).weights_changed()
        if not self.objective.freeze_entities:
            self.live.updated()
            negatives = self.objective.negatives
            self._refreshed(not negatives.n_hard or negatives.rescored > 0)


def _lacks_origin(loss: Loss) -> TypeGuard[ProxyLoss]:
    return isinstance(loss, ProxyLoss) and loss.origin == AUTO
