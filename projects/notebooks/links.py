"""Links from plain text: the spans that a pipeline finds, what is right for each, and P, R, F of linking them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span

from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import gold_mentions, with_successors
from spacy_pel.mentions.links import RankedIds


@dataclass
class Found:
    """`spans`: the entities that a pipeline finds. `gold`: for each, the ids in the KB of the gold mention with its
    very span; empty where that has none, None where there is no such mention. `n_gold`: gold mentions; `n_linked`:
    those of them that have an entity in the KB."""

    spans: list[Span]
    gold: list[set[str] | None]
    n_gold: int
    n_linked: int

    @property
    def is_mention(self) -> np.ndarray:
        """Whether a span is that of a gold mention: bool, shape (spans,)."""
        return np.array([ids is not None for ids in self.gold])

    @property
    def score(self) -> PRFScore:
        """P, R, F of the spans."""
        hits = int(self.is_mention.sum())
        return PRFScore(tp=hits, fp=len(self.spans) - hits, fn=self.n_gold - hits)


def find(nlp: Language, gold_docs: Sequence[Doc], kb: KnowledgeBase) -> Found:
    """Run `nlp` over the texts of `gold_docs`."""
    found = Found([], [], 0, 0)
    for gold_doc, doc in zip(gold_docs, nlp.pipe(doc.text for doc in gold_docs), strict=True):
        gold = {
            (mention.span.start_char, mention.span.end_char): {id_ for id_ in mention.ids if id_ in kb}
            for mention in with_successors(gold_mentions(gold_doc), kb)
        }
        found.spans += doc.ents
        found.gold += [gold.get((span.start_char, span.end_char)) for span in doc.ents]
        found.n_gold += len(gold)
        found.n_linked += sum(map(bool, gold.values()))
    return found


class Links:
    """The best id and score of every span, "" and -inf without a candidate, and whether it is right."""

    def __init__(self, found: Found, candidates: Sequence[RankedIds]) -> None:
        self.ids = [ranked[0][0] if ranked else "" for ranked in candidates]
        self.scores = np.array([ranked[0][1] if ranked else -np.inf for ranked in candidates])
        self.right = np.array([id_ in (gold or ()) for id_, gold in zip(self.ids, found.gold, strict=True)])
        self.n_linked = found.n_linked

    def prf(self, threshold: float = -np.inf) -> tuple[float, float, float]:
        """P, R, F of the links whose score reaches the threshold. P: of those made; R: of the gold mentions that have
        an entity in the KB."""
        made = self.scores >= threshold
        hits = int((self.right & made).sum())
        score = PRFScore(tp=hits, fp=int(made.sum()) - hits, fn=self.n_linked - hits)
        return score.precision, score.recall, score.fscore

    def thresholds(self, n: int = 200) -> np.ndarray:
        """The least score, and others that drop equal shares of the links."""
        return np.quantile(self.scores[np.isfinite(self.scores)], np.linspace(0, 0.98, n))

    def best_threshold(self) -> float:
        """Of `thresholds`, the one with the best F."""
        return float(max(self.thresholds(), key=lambda threshold: self.prf(threshold)[2]))
