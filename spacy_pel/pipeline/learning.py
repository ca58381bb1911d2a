"""Components that learn in a session: what spaCy calls while it trains."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from thinc.api import Model, Optimizer

from ..errors import PelError
from ..mentions.gold import GOLD_GROUP, GoldMention, gold_mentions
from ..mentions.links import mentions_of

EXAMPLES_CHECKED = 1000
STREAMED = -1  # [training] max_epochs, of a corpus of which spaCy shows `initialize` the first Examples only


def check_first_examples(get_examples: Callable[[], Iterable[Example]], method: str) -> None:
    """spaCy's check of what an `initialize` is given, of the first Examples only: to make all takes long.

    Raises:
        TypeError: As for `spacy.training.validate_get_examples`.
    """

    def first() -> Iterable[Example]:
        examples = get_examples()
        return examples and islice(examples, EXAMPLES_CHECKED)

    validate_get_examples(first if callable(get_examples) else get_examples, method)


def gold_to_learn(
    references: Iterable[Doc], name: str, nlp: Language | None, spans_key: str | None
) -> list[GoldMention]:
    """The gold mentions of the first `references` of the training of the component `name` of `nlp`, of which one has an
    id. Of a streamed corpus, which may have ids further on, warn only. Without any mention, as with spaCy's Example for
    those who only want to load things, say nothing, unless the ids are in the group `spans_key` that is linked.

    Raises:
        PelError: None has.
    """
    references = list(references)
    mentions = [mention for doc in references for mention in gold_mentions(doc)]
    if any(mention.is_linked for mention in mentions):
        return mentions
    complaint = _complaint(references, mentions, name, spans_key)
    if complaint and (nlp is None or nlp.config.interpolate()["training"]["max_epochs"] != STREAMED):
        raise PelError(complaint)
    if complaint:
        warnings.warn(complaint, stacklevel=3)
    return mentions


def _complaint(references: list[Doc], mentions: list[GoldMention], name: str, spans_key: str | None) -> str:
    if mentions:
        return (
            f"None of the {len(mentions)} mentions of the first training examples ({mentions[0].span.text!r}, ...) has "
            f"an id that {name} could learn: give the mentions of the training corpus a kb_id, as `spacy pel convert` "
            "does."
        )
    if spans_key and any(span.kb_id for doc in references for span in mentions_of(doc, spans_key)):
        return (
            f'{name} has nothing to learn: gold is read from doc.ents or doc.spans["{GOLD_GROUP}"], and the ids of the '
            f'first training examples are in doc.spans["{spans_key}"]; copy that group in the Docs of the training '
            f'corpus: doc.spans["{GOLD_GROUP}"] = list(doc.spans["{spans_key}"]).'
        )
    return ""


class Learning:
    """Gives a component `update` and `finish_update`.

    Attributes:
        name: Of the component.
        model: What learns.
        session: The training that is going on, which adds up gradients; None: none.
    """

    name: str
    model: Model
    session: Any

    def _learn(self, examples: Sequence[Example]) -> float:
        """Add the gradients of `examples` to the model's, in the session that goes on or a new one, and return the mean
        loss of their mentions."""
        raise NotImplementedError

    def _has_learnt(self) -> None:
        """Forget what holds for older weights."""
        raise NotImplementedError

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of Examples. It begins a training if none goes on.

        Args:
            examples: With gold mentions.
            drop: Ignored: the `encoder_loader` sets the dropout of a transformer.
            sgd: The optimizer; None to add up gradients only.
            losses: Gets the mean loss of the mentions that have an entity in the KB.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        losses[self.name] += self._learn(examples)
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients. Does nothing if no mention contributed a loss."""
        max_norm = getattr(sgd, "max_gradient_norm", None)
        if self.session is None or not self.session.finish_gradients(max_norm):
            return
        self.session.rate_comes(getattr(sgd, "learn_rate", None) != 0)
        self.model.finish_update(sgd)
        self._has_learnt()
