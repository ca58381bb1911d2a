"""What a linker keeps while it learns: the KB as token rows, its vectors under the present weights, and the draws."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from spacy.tokens import Span
from spacy.util import logger
from thinc.api import Model, to_numpy

from ..errors import PelError
from ..kb.index.vectors import VectorIndex
from ..kb.knowledge_base import KnowledgeBase
from ..kb.numbering import VectorNumbers
from ..mentions.gold import GoldMention, with_successors
from ..models.bi_encoder import encode_entities, row_builder, vector_size
from ..models.inputs import ENTITIES_AT_ONCE
from ..models.token_rows import TokenRows
from ..models.tower import tower_module
from .layouts import LAYOUTS, Candidates
from .masking import with_masked_names
from .memory import keep_freed_memory
from .objective import Objective, backpropagate

MOST_ROWS = 200_000  # of mentions that are kept; names of a KB, and passages, seldom come again
MAX_AGE = 1  # updates by which the KB's vectors may lag when they are searched


class Update(NamedTuple):
    """An update of the weights: the mean loss of its mentions and the norm of its gradient before it was clipped."""

    loss: float
    gradient_norm: float


class Trainer:
    """Updates a bi-encoder on gold mentions. All randomness of its own comes from `seed`."""

    def __init__(self, model: Model, kb: KnowledgeBase, objective: Objective, seed: int) -> None:
        self.model = model
        self.kb = kb
        self.objective = objective
        self._rng = np.random.default_rng(seed)
        self._entity_rows: TokenRows | None = None
        self._mention_rows: dict[tuple[bytes, int, int], np.ndarray] = {}
        self._live_rows = kb.live_rows  # entity i here is row _live_rows[i] of the KB
        self._same_concepts = self._read_same_concepts()
        self._index: VectorIndex | None = None
        self._age = 0
        self._n_mentions, self._loss = 0, 0.0  # since the latest update
        self.latest: Update | None = None
        keep_freed_memory()
        for tower in model.layers:  # what a trainer before this one has left
            tower_module(tower).zero_grad()

    def _read_same_concepts(self) -> dict[int, list[int]]:
        """For an entity those that the KB marks as the same concept."""
        same: dict[int, list[int]] = defaultdict(list)
        for one, other in np.searchsorted(self._live_rows, self.kb.same_concepts()).tolist():
            same[one].append(other)
            same[other].append(one)
        return dict(same)

    @property
    def entity_rows(self) -> TokenRows:
        """The token rows of all entities of the KB, in its order, made once."""
        if self._entity_rows is None:
            self._entity_rows = row_builder(self.model).entities(self.kb.entities())
        return self._entity_rows

    def accumulate(self, mentions: Sequence[GoldMention]) -> float:
        """Add the gradients of a batch of mentions to the model's. Mentions that the KB has no entity for, and empty
        ones, give no loss. Neither a mention's correct entities nor those of the same concepts are its negatives.
        RETURNS: the mean loss of the mentions that have an entity; 0.0 if there are none."""
        mentions = with_successors(mentions, self.kb)
        known = self.kb.rows({id_ for mention in mentions for id_ in mention.ids})
        numbers = dict(zip(known, np.searchsorted(self._live_rows, list(known.values())).tolist(), strict=True))
        correct = [[numbers[id_] for id_ in mention.ids if id_ in numbers] for mention in mentions]
        rows = self._rows_of([mention.span for mention in mentions])
        used = [i for i in range(len(mentions)) if correct[i] and len(rows[i])]
        if not used:
            return 0.0
        correct = [correct[i] for i in used]
        not_wrong = [[*own, *(other for one in own for other in self._same_concepts.get(one, ()))] for own in correct]
        mention_tower = self.model.get_ref("mention_tower")
        vectors, backprop = mention_tower.begin_update(TokenRows.from_lists([rows[i] for i in used]))
        objective = self.objective
        negatives = objective.negatives.sample(
            self._rng,
            not_wrong,
            len(self._live_rows),
            to_numpy(vectors),
            self._index if self._index is not None or not objective.negatives.n_hard else self.refresh(),
            objective.loss.logit_scale,
        )
        gold = np.array([self._rng.choice(own) for own in correct])
        candidates = LAYOUTS[objective.layout](gold, not_wrong, negatives, objective.negatives.in_batch)
        entity_rows = self._candidate_rows(candidates, gold, [mentions[i].span.text for i in used])
        entity_tower = self.model.get_ref("entity_tower")
        loss = backpropagate(
            entity_tower, vectors, backprop, candidates, entity_rows, objective.loss, objective.adversarial
        )
        self._n_mentions += len(used)
        self._loss += loss
        return loss / len(used)

    def _candidate_rows(self, candidates: Candidates, gold: np.ndarray, forms: Sequence[str]) -> TokenRows:
        """The token rows of `candidates`; of a share of the `gold` (m,), without the names that are `forms` (m)."""
        rows = self.entity_rows.take(candidates.rows)
        if not self.objective.mask_names:  # nothing is drawn either, so that other draws stay as they were
            return rows
        masked = (self._rng.random(len(gold)) < self.objective.mask_names).nonzero()[0]
        if not len(masked):
            return rows
        entities = [self.kb[id_] for id_ in self.kb.ids(self._live_rows[gold[masked]]).tolist()]
        builder = row_builder(self.model)
        return with_masked_names(rows, candidates.gold[masked], entities, [forms[i] for i in masked], builder)

    def finish_gradients(self, max_norm: float | None) -> bool:
        """Make of the gradients that have been accumulated those of the mean loss over all their mentions, in however
        many batches they came, and clip them to `max_norm` over all parameters. RETURNS: whether there are any.
        RAISES: `PelError` where they are not finite."""
        if not self._n_mentions:
            self.latest = None
            return False
        towers = [tower_module(tower) for tower in self.model.layers]
        gradients = [p.grad for tower in towers for p in tower.parameters() if p.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients)).double()
        norm = norms.square().sum().sqrt().item() / self._n_mentions
        if not math.isfinite(norm):
            raise PelError("The gradient is not finite: training has diverged; lower [training.optimizer] learn_rate.")
        self.latest = Update(self._loss / self._n_mentions, norm)
        scale = min(1.0, max_norm / norm) if max_norm and norm else 1.0
        torch._foreach_mul_(gradients, scale / self._n_mentions)
        self._n_mentions, self._loss = 0, 0.0
        return True

    def _rows_of(self, spans: Sequence[Span]) -> list[np.ndarray]:
        if len(self._mention_rows) > MOST_ROWS:
            self._mention_rows.clear()
        keys = [(_digest(span.doc.text), span.start_char, span.end_char) for span in spans]
        new = [i for i, key in enumerate(keys) if key not in self._mention_rows]
        rows = row_builder(self.model).mentions([spans[i] for i in new])
        self._mention_rows.update((keys[i], rows[number]) for number, i in enumerate(new))
        return [self._mention_rows[key] for key in keys]

    def updated(self) -> None:
        """The weights have changed."""
        self._age += 1

    def refresh(self) -> VectorIndex:
        """Encode the whole KB with the entity tower as it is now. Hard negatives come from the latest encoding: that
        of the first update, of a refresh, or of an evaluation that needed one."""
        start = perf_counter()
        self._index = None  # its memory is free before the new one grows
        vectors = self._entity_vectors(self.entity_rows)
        gpus = self.model.ops.device_type == "gpu"
        self._index = VectorIndex.stream(vectors, vector_size(self.model), gpus=gpus)
        self._age = 0
        logger.info("Encoded the %s entities of the KB in %.0f s", f"{len(self.kb):,}", perf_counter() - start)
        return self._index

    def _entity_vectors(self, rows: TokenRows) -> Iterator[np.ndarray]:
        for start in range(0, len(rows), ENTITIES_AT_ONCE):
            yield encode_entities(self.model, rows.take(np.arange(start, min(start + ENTITIES_AT_ONCE, len(rows)))))

    def search(self, queries: np.ndarray, k: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`KnowledgeBase.search` over the KB as the entity tower encodes it now. It is encoded again unless its vectors
        are at most `MAX_AGE` updates old: the scores that `spacy train` shows at the first step of an epoch then cost
        no pass over the KB beside that of the negatives."""
        index = self.refresh() if self._index is None or self._age > MAX_AGE else self._index
        numbers = None if within is None else VectorNumbers(np.searchsorted(self._live_rows, within))
        scores, found = index.search(queries, k, within=numbers)
        return scores, np.where(found < 0, found, self._live_rows[found])

    def search_over(self, rows: np.ndarray) -> Callable:
        """`search` over these rows of the KB alone, ascending, which are encoded now."""
        start = perf_counter()
        own = self.entity_rows.take(np.searchsorted(self._live_rows, rows))
        index = VectorIndex.stream(self._entity_vectors(own), vector_size(self.model))
        logger.info("Encoded %s entities for the scores in %.0f s", f"{len(rows):,}", perf_counter() - start)

        def search(queries: np.ndarray, k: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
            numbers = None if within is None else VectorNumbers(np.isin(rows, within).nonzero()[0])
            scores, found = index.search(queries, k, within=numbers)
            return scores, np.where(found < 0, found, rows[found])

        return search


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
