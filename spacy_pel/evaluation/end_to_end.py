"""Linking of the entities that a pipeline finds by itself: strict precision, recall and F1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc

from ..kb.entity import NIL
from ..mentions.gold import gold_mentions, with_successors
from ..mentions.links import mentions_of

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase


def end_to_end(
    nlp: Language, docs: Sequence[Doc], kb: KnowledgeBase, spans_key: str | None = None
) -> dict[str, float | None]:
    """Run `nlp` over the texts of `docs` and compare its entities, or the spans of its group `spans_key`, with their
    gold mentions.

    A predicted entity is right if an annotated gold mention has its very span, and its id among the correct ones;
    "NIL" is the id of a mention that has none in the KB. Gold mentions of one span are one, with the ids of all, and so
    are right entities of one span.
    Precision: the share of right ones among predicted entities; recall: among annotated gold mentions. An entity with
    the very span of a gold mention that nobody annotated is neither right nor wrong.

    Returns:
        `end_to_end_precision`, `end_to_end_recall` and `end_to_end_f1`; the precision is None where the pipeline finds
        no entity that counts.
    """
    score = PRFScore()
    for gold_doc, doc in zip(docs, nlp.pipe(doc.text for doc in docs), strict=True):
        gold: dict[tuple[int, int], set[str]] = defaultdict(set)
        unknown: set[tuple[int, int]] = set()
        for mention in with_successors(gold_mentions(gold_doc), kb):
            place = mention.span.start_char, mention.span.end_char
            if mention.ids:
                gold[place] |= {i for i in mention.ids if i in kb} or {NIL}
            else:
                unknown.add(place)
        found = {((span.start_char, span.end_char), span.kb_id_) for span in mentions_of(doc, spans_key)}
        predicted = [(place, kb_id) for place, kb_id in found if place in gold or place not in unknown]
        hits = {place for place, kb_id in predicted if kb_id in gold.get(place, ())}
        score.tp += len(hits)
        score.fp += sum(kb_id not in gold.get(place, ()) for place, kb_id in predicted)
        score.fn += len(gold) - len(hits)
    return {
        "end_to_end_precision": score.precision if score.tp + score.fp else None,
        "end_to_end_recall": score.recall,
        "end_to_end_f1": score.fscore,
    }
