"""What `pel_linker` does to learn: batches of Examples in, updated weights out.

Imported by every `spacy.blank`, like the linker: torch, transformers and faiss load when a method wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from ..mentions.gold import training_mentions

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..training.objective import Objective
    from ..training.session import Trainer, Update


class WithTraining:
    """The part of `PelLinker` that is about its training."""

    name: str
    model: Model
    objective: Objective
    spans_key: str | None
    use_gold_ents: bool
    _trainer: Trainer | None
    _fingerprint: str | None
    _require_kb: Callable[[], KnowledgeBase]
    forget_tuning: Callable[[], None]

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of Examples; `losses` gets the mean loss of the mentions that have an entity in the KB.
        `drop` is ignored: a transformer's dropout is set by its `encoder_loader`."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "PelLinker.update")
        mentions = [
            mention
            for example in examples
            for mention in training_mentions(example, self.use_gold_ents, self.spans_key)
        ]
        losses[self.name] += self._training().accumulate(mentions)
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def _training(self) -> Trainer:
        if self._trainer is None:
            import numpy

            from ..training.session import Trainer

            self.objective.check_similarity(self.model, self.name)
            seed = numpy.random.randint(2**31)  # from the global seed, that `[training] seed` sets
            self._trainer = Trainer(self.model, self._require_kb(), self.objective, seed)
        return self._trainer

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights with the gradients of the mean loss over all mentions since the last time, clipped as
        `spacy_pel.AdamW.v1` says, if that is the optimizer; nothing changes where no mention gave a loss."""
        max_norm = getattr(sgd, "max_gradient_norm", None)
        if self._trainer is None or not self._trainer.finish_gradients(max_norm):
            return
        self.model.finish_update(sgd)
        self._fingerprint = None
        self.forget_tuning()
        self._trainer.updated()

    @property
    def latest_update(self) -> Update | None:
        """The mean loss and the norm of the gradient of the latest update; None before the first, and after a batch of
        which no mention gave a loss."""
        return None if self._trainer is None else self._trainer.latest

    @property
    def is_training(self) -> bool:
        """Whether it has been updated and not indexed since: the vectors of its KB are those of other weights."""
        return self._trainer is not None

    def search_over(self, rows: Any) -> Callable:
        """A search over these rows (n,) of the KB alone, ascending, which are encoded now."""
        return self._training().search_over(rows)

    def refresh_negatives(self) -> None:
        """Encode the KB again, so that hard negatives, if there are any, are those of the present weights."""
        if self.objective.negatives.n_hard:
            self._training().refresh()
