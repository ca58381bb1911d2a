"""Which wrong entities a mention is trained against: random ones, the model's own best wrong ones, or a mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Optional

import numpy as np

from ..errors import PelError

if TYPE_CHECKING:
    from ..kb.vector_index import VectorIndex

NONE = -1
Draw = Literal["top", "sample"]


@dataclass(frozen=True)
class NegativeSampler:
    """Draws `n` negatives a mention, `percent_hard` of them hard and the rest uniform over the KB, none twice and none
    of the mention's correct entities.

    draw: how hard ones are taken: "top", the best-scoring ones (PEL), or "sample", without replacement from the
        softmax of the training logits over the `pool` best-scoring ones (hard-NCE, eq. 8).
    """

    n: int
    percent_hard: float
    draw: Draw
    pool: int

    def __post_init__(self) -> None:
        if self.n < 1 or not 0 <= self.percent_hard <= 100 or self.draw not in ("top", "sample"):
            raise PelError(
                "[components.pel_linker.negatives]: n must be at least 1, p between 0 and 100 and draw 'top' or "
                f"'sample', not n = {self.n}, p = {self.percent_hard}, draw = {self.draw!r}."
            )

    @property
    def n_hard(self) -> int:
        return round(self.n * self.percent_hard / 100)

    def sample(
        self,
        rng: np.random.Generator,
        correct: Sequence[Sequence[int]],
        n_entities: int,
        vectors: np.ndarray,
        index: Optional["VectorIndex"] = None,
        logit_scale: float = 1.0,
    ) -> np.ndarray:
        """correct: the KB rows that are right for each of m mentions. vectors (m, d): those mentions, encoded.
        index: the KB's vectors, needed for hard negatives. Returns (m, n) KB rows, `NONE` where a small KB has no more.
        """
        hard = self._hard(rng, correct, vectors, index, logit_scale) if self.n_hard else [[] for _ in correct]
        rows = np.full((len(correct), self.n), NONE, dtype="int64")
        for i, (own, found) in enumerate(zip(correct, hard, strict=True)):
            drawn = [*found, *_uniform(rng, n_entities, self.n - len(found), {*own, *found})]
            rows[i, : len(drawn)] = drawn
        return rows

    def _hard(
        self,
        rng: np.random.Generator,
        correct: Sequence[Sequence[int]],
        vectors: np.ndarray,
        index: Optional["VectorIndex"],
        logit_scale: float,
    ) -> list[list[int]]:
        if index is None:
            raise PelError(
                "Hard negatives need the KB's vectors: set [training.before_update] to @callbacks = "
                '"spacy_pel.refresh_negatives.v1", or choose spacy_pel.RandomNegatives.v1.'
            )
        depth = self.pool if self.draw == "sample" else self.n_hard
        scores, rows = index.search(vectors, depth + max(map(len, correct), default=0))
        if self.draw == "sample":  # the largest of logits + Gumbel noise are a draw without replacement
            scores = logit_scale * scores + rng.gumbel(size=scores.shape)
            order = np.argsort(-scores, axis=1)
            rows = np.take_along_axis(rows, order, axis=1)
        return [
            [row for row in found if row != NONE and row not in own][: self.n_hard]
            for own, found in zip(correct, rows.tolist(), strict=True)
        ]


def _uniform(rng: np.random.Generator, n_entities: int, n: int, excluded: set[int]) -> list[int]:
    """`n` different rows of `range(n_entities)` outside `excluded`, or all there are."""
    if n_entities - len(excluded) <= 4 * n:
        return rng.permutation([row for row in range(n_entities) if row not in excluded])[:n].tolist()
    drawn: dict[int, None] = {}
    while len(drawn) < n:
        drawn.update((row, None) for row in rng.integers(n_entities, size=2 * n).tolist() if row not in excluded)
    return list(drawn)[:n]


def make_random_negatives(n: int = 8) -> NegativeSampler:
    """`spacy_pel.RandomNegatives.v1`: `n` uniform negatives a mention."""
    return NegativeSampler(n, 0, "top", 1000)


def make_hard_negatives(n: int = 8, draw: Draw = "top", pool: int = 1000) -> NegativeSampler:
    """`spacy_pel.HardNegatives.v1`: `n` hard negatives a mention; see `NegativeSampler` for `draw` and `pool`."""
    return NegativeSampler(n, 100, draw, pool)


def make_mixed_negatives(n: int = 8, p: float = 50, draw: Draw = "top", pool: int = 1000) -> NegativeSampler:
    """`spacy_pel.MixedNegatives.v1`: `p` per cent of `n` hard, the rest uniform."""
    return NegativeSampler(n, p, draw, pool)
