"""Candidate layouts: which entity rows a batch encodes, and which of them stand for or against each mention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from ..errors import PelError
from ..models.scoring.dual import all_pairs, own_pairs
from .negatives import NONE, Negatives


@dataclass(frozen=True)
class Candidates:
    """rows (r,): the KB rows to encode. gold (m,): where in them the entity is that each mention is trained towards.
    positives, negatives (m, c) bool: what each candidate is to each mention. pair: scores (m, c) from mention vectors
    (m, d) and entity vectors (r, d). log_q (m, c): with which log-probability each negative was drawn, where the draws
    were independent."""

    rows: np.ndarray
    gold: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    pair: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    log_q: np.ndarray | None = None


def per_mention(
    gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: Negatives, in_batch: bool | None = None
) -> Candidates:
    """Every mention has candidates of its own, one row a pair: r = m · (1 + N), c = 1 + N, the gold entity first.

    gold (m,): the entity each mention is trained towards. correct: the KB rows that are no negatives of each mention.
    in_batch: the gold entities of the batch's other mentions are candidates too, each once: c = 1 + N + m, and no row
        more. A gold entity's row then serves several mentions, and FGSM's step for it is an approximation.
    """
    valid = negatives.rows != NONE
    rows = np.concatenate([gold[:, None], np.where(valid, negatives.rows, gold[:, None])], axis=1)
    places = np.arange(len(rows)) * rows.shape[1]
    is_gold = np.zeros(rows.shape, dtype=bool)
    is_gold[:, 0] = True
    is_wrong = np.concatenate([np.zeros_like(valid[:, :1]), valid], axis=1)
    if in_batch:
        others = np.array([~np.isin(gold, own) for own in correct])
        others &= _first_of_each(gold) & ~np.array([np.isin(gold, own) for own in negatives.rows])
        is_gold, is_wrong = np.hstack([is_gold, np.zeros_like(others)]), np.hstack([is_wrong, others])
        return Candidates(rows.ravel(), places, is_gold, is_wrong, partial(_own_and_golds, rows.shape[1]))
    log_q = None if negatives.log_q is None else np.hstack([np.zeros((len(gold), 1)), negatives.log_q])
    return Candidates(rows.ravel(), places, is_gold, is_wrong, own_pairs, log_q)


def shared(
    gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: Negatives, in_batch: bool | None = None
) -> Candidates:
    """All mentions share the deduplicated union of the batch's entities: r = c. Every entity of it that is not right
    for a mention (`correct`, KB rows) is a negative of that mention.

    in_batch: False leaves out, for each mention, the gold entities of others that nobody drew.
    """
    drawn = negatives.rows[negatives.rows != NONE]
    rows = np.unique(np.concatenate([gold, drawn]))
    is_gold = rows[None, :] == gold[:, None]
    is_wrong = np.array([~np.isin(rows, own) for own in correct])
    if in_batch is False:
        is_wrong &= np.isin(rows, drawn)
    return Candidates(rows, np.searchsorted(rows, gold), is_gold, is_wrong, all_pairs)


LAYOUTS = {"shared": shared, "per_mention": per_mention}


def check_layout(name: str) -> str:
    if name not in LAYOUTS:
        raise PelError(f"[components.pel_linker]: layout is {name!r}; choose one of {', '.join(LAYOUTS)}.")
    return name


def _first_of_each(gold: np.ndarray) -> np.ndarray:
    """(m,) bool: where each entity of `gold` comes for the first time."""
    first = np.zeros(len(gold), dtype=bool)
    first[np.unique(gold, return_index=True)[1]] = True
    return first


def _own_and_golds(width: int, mentions: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Scores of `own_pairs`, then of all mentions with the first of every `width` entities."""
    return torch.cat([own_pairs(mentions, entities), all_pairs(mentions, entities[::width])], dim=1)
