"""Draws of wrong entities, as places in the list of entities that is trained with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kb.several import Vectors
from ..search.rescored import NONE, CanSearch

ScoredPlaces = tuple[np.ndarray, np.ndarray]  # the scores and places of entities, best first


def best_wrong(index: CanSearch, queries: Vectors, correct: Sequence[Sequence[int]], depth: int) -> list[ScoredPlaces]:
    """Search the `depth` best wrong entities of every mention.

    Args:
        index: Of the entities, in their order.
        queries: The vectors of m mentions.
        correct: The places of the right entities of each mention.
        depth: How many to find.
    """
    scores, places = index.search(queries, depth + max(map(len, correct), default=0))
    wrong = [(own != NONE) & ~np.isin(own, right) for own, right in zip(places, correct, strict=True)]
    return [(s[w][:depth], p[w][:depth]) for s, p, w in zip(scores, places, wrong, strict=True)]


def softmax_without_replacement(rng: np.random.Generator, found: ScoredPlaces, n: int, logit_scale: float) -> list[int]:
    """Draw `n` different ones of the entities found, by the softmax of their training logits (Zhang & Stratos 2021,
    eq. 8): the largest of logits + Gumbel noise are such a draw."""
    scores, places = found
    return places[np.argsort(-(logit_scale * scores + rng.gumbel(size=scores.shape)))][:n].tolist()


def uniform_without_replacement(rng: np.random.Generator, n_entities: int, n: int, excluded: set[int]) -> list[int]:
    """Draw `n` different places of `range(n_entities)` outside `excluded`, or all there are."""
    if n_entities - len(excluded) <= 4 * n:
        return rng.permutation([place for place in range(n_entities) if place not in excluded])[:n].tolist()
    drawn: dict[int, None] = {}
    while len(drawn) < n:
        found = rng.integers(n_entities, size=2 * n).tolist()
        drawn.update((place, None) for place in found if place not in excluded)
    return list(drawn)[:n]


def independent(
    rng: np.random.Generator,
    n_entities: int,
    own: Sequence[int],
    n: int,
    found: ScoredPlaces | None,
    n_hard: int,
    logit_scale: float,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Draw `n` wrong entities of one mention with replacement.

    The first `n_hard` come from the softmax of the training logits over those found, the others are uniform. All count
    as drawn from the mixture of the two distributions, so that each has one q.

    Args:
        rng: The source of randomness.
        n_entities: The number of entities that are trained with.
        own: The places of the mention's right entities.
        n: How many to draw.
        found: The scores and places of its best wrong entities; None or without any: all draws are uniform.
        n_hard: How many of the `n` come from these.
        logit_scale: What makes a training logit of a score.

    Returns:
        Places (n,) and log-probabilities (n,); None where no entity is wrong.
    """
    n_wrong = n_entities - len(set(own))
    if not n_wrong:
        return None
    drawn, q = rng.integers(n_wrong, size=n), np.full(n, 1 / n_wrong)
    drawn = _skipping(drawn, sorted(set(own)))
    if found is not None and len(found[1]):
        share, (scores, pool) = n_hard / n, found
        logits = logit_scale * scores.astype(np.float64)
        probabilities = np.exp(logits - np.logaddexp.reduce(logits))
        drawn[:n_hard] = rng.choice(pool, size=n_hard, p=probabilities / probabilities.sum())
        in_pool = dict(zip(pool.tolist(), probabilities, strict=True))
        q = (1 - share) * q + share * np.array([in_pool.get(place, 0.0) for place in drawn.tolist()])
    return drawn, np.log(q)


def _skipping(numbers: np.ndarray, excluded: Sequence[int]) -> np.ndarray:
    """Turn `numbers`, counted over what is left without `excluded` (ascending), into places."""
    for place in excluded:
        numbers = numbers + (numbers >= place)
    return numbers
