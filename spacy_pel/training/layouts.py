"""Candidate layouts: which entities a batch encodes, and which of them stand for or against each mention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from ..models.scoring.bags import Given
from ..models.scoring.score import Score
from .negatives import NONE, DrawnNegatives


@dataclass(frozen=True)
class TrainingBatch:
    """The r entities that m mentions are trained with, c of them a mention.

    Attributes:
        entity_places: (r,), the entities to encode, as places in the list of entities that is trained with. An entity
            may come several times.
        gold: (m,), where in `entity_places` the entity is that each mention is trained towards.
        positives: (m, c) bool, which candidates of a mention are right.
        negatives: (m, c) bool, which are wrong. A candidate that is neither takes no part.
        candidates: What the candidates of a mention are: "all" r entities; its "own" c, the entities lying mention by
            mention; "own and gold": its own, then the gold entities of all m mentions.
        log_q: (m, c), the log-probability with which each negative was drawn, where the draws were independent.
        targets: (m, c), what a ranker scores each candidate, to be learnt from; -inf where it says nothing.
    """

    entity_places: np.ndarray
    gold: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    candidates: Literal["all", "own", "own and gold"]
    log_q: np.ndarray | None = None
    targets: np.ndarray | None = None

    def candidate_places(self) -> np.ndarray:
        """The candidates (m, c) of each mention, as places in the list of entities that is trained with."""
        n_mentions = len(self.gold)
        if self.candidates == "all":
            return np.tile(self.entity_places, (n_mentions, 1))
        own = self.entity_places.reshape(n_mentions, -1)
        if self.candidates == "own":
            return own
        return np.hstack([own, np.tile(self.entity_places[self.gold], (n_mentions, 1))])

    def scores(self, score: Score, mentions: Given, entities: Given) -> torch.Tensor:
        """Score every mention against its candidates.

        Args:
            score: How pairs are scored.
            mentions: The m encoded mentions.
            entities: The r encoded entities.

        Returns:
            (m, c).
        """
        if self.candidates == "all":
            return score.all_pairs(mentions, entities)
        own = score.own_pairs(mentions, entities)
        return own if self.candidates == "own" else torch.cat([own, score.all_pairs(mentions, entities[self.gold])], 1)


def per_mention(
    gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: DrawnNegatives, in_batch: bool | None = None
) -> TrainingBatch:
    """Give every mention candidates of its own: r = m · (1 + N), c = 1 + N, its gold entity first.

    Args:
        gold: (m,), the place of the entity that each mention is trained towards.
        correct: For each mention the places of the entities that are no negatives of it.
        negatives: What was drawn, N a mention.
        in_batch: Make candidates of the gold entities of the batch's other mentions too, each once: c = 1 + N + m, with
            no entity more to encode. A gold entity's row then serves several mentions, and FGSM's step for it is an
            approximation.
    """
    valid = negatives.places != NONE
    places = np.concatenate([gold[:, None], np.where(valid, negatives.places, gold[:, None])], axis=1)
    first = np.arange(len(places)) * places.shape[1]
    is_gold = np.zeros(places.shape, dtype=bool)
    is_gold[:, 0] = True
    is_wrong = np.concatenate([np.zeros_like(valid[:, :1]), valid], axis=1)
    if in_batch:
        others = np.array([~np.isin(gold, own) for own in correct])
        others &= _first_of_each(gold) & ~np.array([np.isin(gold, own) for own in negatives.places])
        is_gold, is_wrong = np.hstack([is_gold, np.zeros_like(others)]), np.hstack([is_wrong, others])
        return TrainingBatch(places.ravel(), first, is_gold, is_wrong, "own and gold")
    log_q = None if negatives.log_q is None else np.hstack([np.zeros((len(gold), 1)), negatives.log_q])
    return TrainingBatch(places.ravel(), first, is_gold, is_wrong, "own", log_q)


def shared(
    gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: DrawnNegatives, in_batch: bool | None = None
) -> TrainingBatch:
    """Let all mentions share the distinct entities of the batch: r = c. Those that are not right for a mention
    (`correct`) are its negatives.

    Args:
        gold: As for `per_mention`.
        correct: As for `per_mention`.
        negatives: What was drawn.
        in_batch: False leaves out, for each mention, the gold entities of others that nobody drew.
    """
    drawn = negatives.places[negatives.places != NONE]
    places = np.unique(np.concatenate([gold, drawn]))
    is_gold = places[None, :] == gold[:, None]
    is_wrong = np.array([~np.isin(places, own) for own in correct])
    if in_batch is False:
        is_wrong &= np.isin(places, drawn)
    return TrainingBatch(places, np.searchsorted(places, gold), is_gold, is_wrong, "all")


LAYOUTS = {"shared": shared, "per_mention": per_mention}


def _first_of_each(gold: np.ndarray) -> np.ndarray:
    """Return where (m,) each entity of `gold` comes for the first time."""
    first = np.zeros(len(gold), dtype=bool)
    first[np.unique(gold, return_index=True)[1]] = True
    return first
