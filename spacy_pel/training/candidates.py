"""Candidate layouts: which entity rows a batch encodes, and which of them stand for or against each mention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import PelError
from ..models.similarity import all_pairs, own_pairs
from .negatives import NONE


@dataclass(frozen=True)
class Candidates:
    """rows (r,): the KB rows to encode. positives, negatives (m, c) bool: what each candidate is to each mention.
    pair: scores (m, c) from mention vectors (m, d) and entity vectors (r, d)."""

    rows: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    pair: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def per_mention(gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: np.ndarray) -> Candidates:
    """Every mention has candidates of its own, one row a pair: r = m · (1 + N), c = 1 + N, the gold entity first.

    gold (m,): the entity each mention is trained towards; negatives (m, N) KB rows, `NONE` for none.
    """
    valid = negatives != NONE
    rows = np.concatenate([gold[:, None], np.where(valid, negatives, gold[:, None])], axis=1)
    is_gold = np.zeros(rows.shape, dtype=bool)
    is_gold[:, 0] = True
    return Candidates(rows.ravel(), is_gold, np.concatenate([np.zeros_like(valid[:, :1]), valid], axis=1), own_pairs)


def shared(gold: np.ndarray, correct: Sequence[Sequence[int]], negatives: np.ndarray) -> Candidates:
    """All mentions share the deduplicated union of the batch's entities: r = c. Every entity of it that is not right
    for a mention (`correct`, KB rows) is a negative of that mention."""
    rows = np.unique(np.concatenate([gold, negatives[negatives != NONE]]))
    is_gold = rows[None, :] == gold[:, None]
    is_wrong = np.array([~np.isin(rows, own) for own in correct])
    return Candidates(rows, is_gold, is_wrong, all_pairs)


LAYOUTS = {"shared": shared, "per_mention": per_mention}


def check_layout(name: str) -> str:
    if name not in LAYOUTS:
        raise PelError(f"[components.pel_linker]: layout is {name!r}; choose one of {', '.join(LAYOUTS)}.")
    return name
