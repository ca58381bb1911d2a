"""scispaCy's own candidate generator as a baseline: its TF-IDF vectors in its approximate index (extra `scispacy`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spacy_pel.kb.knowledge_base import Entity

EF_SEARCH = 200  # scispaCy's default at query time


def scispacy_ranker(
    entities: Sequence[Entity], k: int, neighbours: int = 200
) -> Callable[[Sequence[str]], list[list[tuple[str, float]]]]:
    """Build scispaCy's index over `entities` (slow: hours for a whole vocabulary) and rank with it.

    scispaCy asks its index for the nearest *names* and maps them to ids, so fewer ids than names come back:
    `neighbours` names are asked for where its linker asks for 30. An entity scores as its best name, as there.
    """
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
    generator = candidate_generation.CandidateGenerator(index, vectorizer, aliases, kb)

    def ranker(texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        ranked = []
        for candidates in generator(list(texts), neighbours):
            scored = [(candidate.concept_id, max(candidate.similarities)) for candidate in candidates]
            ranked.append(sorted(scored, key=lambda pair: -pair[1])[:k])
        return ranked

    return ranker
