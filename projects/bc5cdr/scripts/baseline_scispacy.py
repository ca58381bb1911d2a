"""scispaCy's own candidate generator beside TF-IDF by exact search, over the same part of the KB (extra `scispacy`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import srsly
import typer

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.baselines import Candidates, NameSearch, Tfidf, measure, string_mentions
from spacy_pel.evaluation.metrics import seen_and_ambiguous
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.mentions.gold import gold_of

EF_SEARCH = 200  # scispaCy's default at query time
NEIGHBOURS = 200  # names searched for, of which several may be of one entity; scispaCy's linker asks for 30


def main(
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions")],
    output: Annotated[Path, typer.Argument(help="Folder for baseline-NAME-SIZE.json")],
    train: Annotated[Path, typer.Option(help="Training corpus: tells seen ids")],
    subset: Annotated[int, typer.Option(help="Entities: the gold ones and a seeded draw of others; 0: all")] = 5000,
    seed: Annotated[int, typer.Option(help="Of the draw")] = 0,
) -> None:
    """Write the measures of both, with the keys of `python -m spacy pel baselines`."""
    kb, vocab = KnowledgeBase(kb_path), spacy.blank("en").vocab
    mentions = string_mentions(read_docs(corpus, vocab), kb)
    known = seen_and_ambiguous([mention.gold for mention in mentions], gold_of(read_docs(train, vocab), kb))
    entities = draw(list(kb.entities()), {id_ for mention in mentions for id_ in mention.gold.ids}, subset, seed)
    ids = {entity.id for entity in entities}
    searches: dict[str, Callable[[Sequence[Entity]], NameSearch]] = {"scispacy": ScispacyGenerator, "tfidf": Tfidf}
    for name, build in searches.items():
        values = measure(build(entities), mentions, ids, **known)
        output.mkdir(parents=True, exist_ok=True)
        srsly.write_json(output / f"baseline-{name}-{len(entities)}.json", values)
        typer.echo(
            f"{name}: recall@1 {values['recall_at_1']:.4f}, {values['mentions_per_second']:,.0f} mentions a second"
        )


def draw(entities: Sequence[Entity], gold: set[str], size: int, seed: int) -> list[Entity]:
    """The gold entities and a seeded draw of others, `size` in all, in the order of the KB."""
    kept = [row for row, entity in enumerate(entities) if entity.id in gold]
    others = [row for row, entity in enumerate(entities) if entity.id not in gold]
    n = min(len(others), max(0, size - len(kept))) if size else len(others)
    drawn = np.random.default_rng(seed).choice(len(others), n, replace=False)
    return [entities[row] for row in sorted([*kept, *(others[i] for i in drawn)])]


class ScispacyGenerator:
    """scispaCy's TF-IDF vectors in its approximate index, which is slow to build: hours for a whole vocabulary.

    The index finds names, which scispaCy maps to ids; an entity has the score of its best name, as there.
    """

    def __init__(self, entities: Sequence[Entity]) -> None:
        from scispacy import candidate_generation
        from scispacy.linking_utils import Entity as ScispacyEntity
        from scispacy.linking_utils import KnowledgeBase as ScispacyKB

        kb = ScispacyKB(ScispacyEntity(e.id, e.name, list(e.aliases), list(e.types), e.definition) for e in entities)
        # Building refuses scipy >= 1.11 because float16 matrices cannot be *saved* there; nothing is saved here.
        check = candidate_generation.scipy_supports_sparse_float16
        candidate_generation.scipy_supports_sparse_float16 = lambda: True
        try:
            aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, kb)
        finally:
            candidate_generation.scipy_supports_sparse_float16 = check
        index.setQueryTimeParams({"efSearch": EF_SEARCH})
        self._generator = candidate_generation.CandidateGenerator(index, vectorizer, aliases, kb)
        self.neighbours = NEIGHBOURS

    def search(self, texts: Sequence[str], k: int) -> list[Candidates]:
        """At most `k` entities for each text, best first."""
        ranked = []
        for candidates in self._generator(list(texts), self.neighbours):
            scored = [(candidate.concept_id, max(candidate.similarities)) for candidate in candidates]
            ranked.append(sorted(scored, key=lambda pair: -pair[1])[:k])
        return ranked


if __name__ == "__main__":
    typer.run(main)
