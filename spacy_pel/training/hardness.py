"""How hard the hard negatives of a batch are under the present weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .draws import NONE
from .session import LatestDraw

BEST = 4


class Hardness(NamedTuple):
    """Of the hard negatives of a batch the share that is among the `BEST` wrong entities of its mention, and the mean
    rank among the wrong ones, 1 being the best-scoring."""

    hard_in_best: float
    hard_mean_rank: float


def hardness(draw: LatestDraw, pool: int, seed: int) -> Hardness | None:
    """Rank the hard negatives of a batch among `pool` entities, drawn by `seed`, and all hard negatives of the batch,
    by what the entity tower makes of these now.

    Over a pool smaller than the KB fewer entities stand before a negative. The share is then no less, and the mean
    rank no more, than over the whole KB; values of one pool compare with each other.

    Returns:
        None where there are no hard negatives.
    """
    used = draw.hard != NONE
    if not used.any():
        return None
    drawn = np.random.default_rng(seed).permutation(len(draw.part))[:pool]
    numbers = np.union1d(drawn, draw.hard[used])
    scores = draw.part.scores(draw.queries, numbers)
    wrong = np.array([~np.isin(numbers, own) for own in draw.not_wrong])
    hard = np.take_along_axis(scores, np.searchsorted(numbers, np.where(used, draw.hard, numbers[0])), axis=1)
    ranks = 1 + ((scores[:, None] > hard[:, :, None]) & wrong[:, None]).sum(axis=2)[used]
    return Hardness(round(float((ranks <= BEST).mean()), 4), round(float(ranks.mean()), 2))
