"""What the gold standard says about the mentions of a Doc."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import logger

from ..checks import named
from ..errors import PelError
from ..kb.entity import NIL
from .links import mentions_of

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase

GOLD_GROUP = "gold_mentions"


class GoldMention(NamedTuple):
    """A mention and its correct ids.

    Attributes:
        span: The mention.
        ids: `()` where nobody annotated it, `("NIL",)` where the annotators found no id, else every correct id.
    """

    span: Span
    ids: tuple[str, ...]

    @property
    def form(self) -> str:
        """The mention's text, case ignored."""
        return self.span.text.casefold()

    @property
    def is_linked(self) -> bool:
        """Whether it has an id to learn from: annotated, and not NIL."""
        return bool(self.ids) and self.ids != (NIL,)


def gold_mentions(doc: Doc) -> list[GoldMention]:
    """Return the mentions of `doc.spans["gold_mentions"]` where the Doc has that group (it may hold nested and
    overlapping ones), else its entities. A `kb_id_` of `"A|B"` gives the ids A and B."""
    spans = doc.spans.get(GOLD_GROUP, doc.ents)
    return [GoldMention(span, tuple(filter(None, span.kb_id_.split("|")))) for span in spans]


def with_successors(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> list[GoldMention]:
    """Return `mentions` with the ids that the source of `kb` has retired replaced by those that took their place."""
    mentions = list(mentions)
    successors = kb.successors({id_ for mention in mentions for id_ in mention.ids})
    if not successors:
        return mentions
    return [
        mention._replace(ids=tuple(dict.fromkeys(successors.get(id_, id_) for id_ in mention.ids)))
        for mention in mentions
    ]


def gold_of(docs: Iterable[Doc], kb: KnowledgeBase) -> list[GoldMention]:
    """Return the gold mentions of all `docs`, in their order, as `with_successors` gives them.

    Raises:
        PelError: They are no Docs.
    """
    return with_successors((mention for doc in docs_given(docs) for mention in gold_mentions(doc)), kb)


def annotated_of(docs: Iterable[Doc], kb: KnowledgeBase, labels_discard: Container[str]) -> list[GoldMention]:
    """Those of `gold_of` that are `searched`: what a linker can be tuned on."""
    return [one for one in gold_of(docs, kb) if searched(one, labels_discard)]


def searched(mention: GoldMention, labels_discard: Container[str]) -> bool:
    """Whether a linker searches for a gold mention: it is annotated, and its label is none that is discarded."""
    return bool(mention.ids) and mention.span.label_ not in labels_discard


def docs_given(docs: Iterable[Doc]) -> Iterator[Doc]:
    """Yield `docs`.

    Raises:
        PelError: They are no Docs.
    """
    for doc in [None] if isinstance(docs, str | Doc) or not isinstance(docs, Iterable) else docs:
        if not isinstance(doc, Doc):
            given = docs if doc is None else doc
            raise PelError(
                f"{named(given)} is no list of Docs: give Docs with gold mentions, such as "
                "those of a .spacy file that `spacy pel convert` wrote."
            )
        yield doc


def ambiguous_forms(mentions: Iterable[GoldMention]) -> set[str]:
    """Return the forms that mean one entity here and another there (NIL counts as one): mentions of the form share no
    correct id."""
    meanings: dict[str, set[tuple[str, ...]]] = {}
    for mention in mentions:
        if mention.ids:
            meanings.setdefault(mention.form, set()).add(mention.ids)
    return {
        form
        for form, golds in meanings.items()
        if any(set(one).isdisjoint(other) for one, other in combinations(golds, 2))
    }


def on_predicted(mentions: Iterable[GoldMention], example: Example) -> list[GoldMention]:
    """Return `mentions` of the reference of `example` as spans of its predicted Doc: all tokens there that have a
    character of them. A mention without any is left out."""
    found = []
    for mention in mentions:
        start, end, label = mention.span.start_char, mention.span.end_char, mention.span.label_
        span = example.predicted.char_span(start, end, label, alignment_mode="expand")
        if span is not None:
            found.append(mention._replace(span=span))
    return found


def training_mentions(example: Example, use_gold_ents: bool, spans_key: str | None = None) -> list[GoldMention]:
    """Return the gold mentions of a reference that have an id.

    Args:
        example: An Example.
        use_gold_ents: Return all of them; else those that are mentions of the predicted Doc too (see `mentions_of`).
        spans_key: For `mentions_of`.
    """
    mentions = [mention for mention in gold_mentions(example.reference) if mention.is_linked]
    if use_gold_ents:
        return mentions
    predicted = {(span.start_char, span.end_char) for span in mentions_of(example.predicted, spans_key)}
    return [mention for mention in mentions if (mention.span.start_char, mention.span.end_char) in predicted]


def mentions_to_learn(
    examples: Iterable[Example], use_gold_ents: bool, spans_key: str | None, *, predicted: bool
) -> list[GoldMention]:
    """Return the `training_mentions` of `examples`, in their predicted Docs if `predicted`, else in the references."""
    found = ((eg, training_mentions(eg, use_gold_ents, spans_key)) for eg in examples)
    return [one for eg, mentions in found for one in (on_predicted(mentions, eg) if predicted else mentions)]


def check_gold_ids(mentions: Iterable[GoldMention], kb: KnowledgeBase) -> None:
    """Log how many gold ids `kb` lacks.

    Raises:
        PelError: It lacks all of them.
    """
    gold = {id_ for mention in with_successors(mentions, kb) if mention.is_linked for id_ in mention.ids}
    known = kb.rows(gold)
    if gold and not known:
        raise PelError(
            f"None of the {len(gold)} gold ids of the first training examples ({min(gold)!r}, ...) is in the KB "
            f"{kb.path} ({next(iter(kb))!r}, ...): check that corpus and KB use the same ids (`convert --strip-prefix` "
            "removes a prefix)."
        )
    if len(known) < len(gold):
        logger.info("%d of the first %d gold ids are not in the KB: they are NIL", len(gold) - len(known), len(gold))
