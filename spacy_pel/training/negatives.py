"""Which wrong entities a mention is trained against: random ones, the model's own best wrong ones, or a mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Optional

import numpy as np

from ..errors import PelError

if TYPE_CHECKING:
    from ..kb.index.vectors import VectorIndex

NONE = -1
DRAWS = ("top", "sample", "iid")
Draw = Literal["top", "sample", "iid"]


class Negatives(NamedTuple):
    """rows (m, n) int64: KB rows, `NONE` where a small KB has no more. log_q (m, n) float64: the log-probability with
    which each was drawn, where the draws are independent; else None."""

    rows: np.ndarray
    log_q: np.ndarray | None = None


@dataclass(frozen=True)
class NegativeSampler:
    """Draws `n` negatives a mention, `percent_hard` of them hard and the rest uniform over the KB: none of the correct
    entities of the mention, and none twice unless `draw` is "iid".

    draw: how hard ones are taken: "top", the best-scoring ones (PEL); "sample", without replacement from the softmax of
        the training logits over the `pool` best-scoring ones (hard-NCE, eq. 8); "iid", with replacement from it, and
        uniform ones with replacement too, as `NCELoss` needs them.
    in_batch: whether the correct entities of a batch's other mentions are negatives too; None: as the layout has it.
    """

    n: int
    percent_hard: float
    draw: Draw = "top"
    pool: int = 1000
    in_batch: bool | None = None

    def __post_init__(self) -> None:
        if self.n < 1 or not 0 <= self.percent_hard <= 100 or self.draw not in DRAWS:
            raise PelError(
                "[components.pel_linker.negatives]: n must be at least 1, p between 0 and 100 and draw one of "
                f"{', '.join(DRAWS)}, not n = {self.n}, p = {self.percent_hard}, draw = {self.draw!r}."
            )
        if self.draw != "top" and self.pool < self.n_hard:
            raise PelError(
                f"[components.pel_linker.negatives]: pool = {self.pool} is less than the {self.n_hard} hard negatives "
                "that are drawn from it; make it larger."
            )

    @property
    def n_hard(self) -> int:
        """That share of `n`, to the nearest whole number; a half counts as one more."""
        return int(self.n * self.percent_hard / 100 + 0.5)

    def sample(
        self,
        rng: np.random.Generator,
        correct: Sequence[Sequence[int]],
        n_entities: int,
        vectors: np.ndarray,
        index: Optional["VectorIndex"] = None,
        logit_scale: float = 1.0,
    ) -> Negatives:
        """correct: the KB rows that are right for each of m mentions. vectors (m, d): those mentions, encoded.
        index: the KB's vectors, needed for hard negatives. logit_scale: what makes a training logit of a score.
        """
        if self.n_hard and index is None:
            raise PelError(
                "Hard negatives need the KB's vectors: set [training.before_update] to @callbacks = "
                '"spacy_pel.refresh_negatives.v1", or choose spacy_pel.RandomNegatives.v1.'
            )
        hard = self._best_wrong(index, vectors, correct) if index is not None and self.n_hard else None
        if self.draw == "iid":
            return self._independent(rng, correct, n_entities, hard, logit_scale)
        rows = np.full((len(correct), self.n), NONE, dtype="int64")
        for i, own in enumerate(correct):
            found = self._without_replacement(rng, *hard[i], logit_scale) if hard else []
            drawn = [*found, *_uniform(rng, n_entities, self.n - len(found), {*own, *found})]
            rows[i, : len(drawn)] = drawn
        return Negatives(rows)

    def _best_wrong(
        self, index: "VectorIndex", vectors: np.ndarray, correct: Sequence[Sequence[int]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every mention the scores and rows of its best wrong entities, best first."""
        depth = self.n_hard if self.draw == "top" else self.pool
        scores, rows = index.search(vectors, depth + max(map(len, correct), default=0))
        wrong = [(own != NONE) & ~np.isin(own, right) for own, right in zip(rows, correct, strict=True)]
        return [(s[w][:depth], r[w][:depth]) for s, r, w in zip(scores, rows, wrong, strict=True)]

    def _without_replacement(
        self, rng: np.random.Generator, scores: np.ndarray, rows: np.ndarray, logit_scale: float
    ) -> list[int]:
        if self.draw == "sample":  # the largest of logits + Gumbel noise are a draw without replacement
            rows = rows[np.argsort(-(logit_scale * scores + rng.gumbel(size=scores.shape)))]
        return rows[: self.n_hard].tolist()

    def _independent(
        self,
        rng: np.random.Generator,
        correct: Sequence[Sequence[int]],
        n_entities: int,
        hard: list[tuple[np.ndarray, np.ndarray]] | None,
        logit_scale: float,
    ) -> Negatives:
        """All draws count as from the mixture of the two distributions, so that each has one q."""
        rows = np.full((len(correct), self.n), NONE, dtype="int64")
        log_q = np.zeros(rows.shape)
        for i, own in enumerate(correct):
            n_wrong = n_entities - len(set(own))
            if not n_wrong:
                continue
            drawn, q = rng.integers(n_wrong, size=self.n), np.full(self.n, 1 / n_wrong)
            drawn = _skipping(drawn, sorted(set(own)))
            if hard is not None:
                share, (scores, pool) = self.n_hard / self.n, hard[i]
                logits = logit_scale * scores.astype(np.float64)
                probabilities = np.exp(logits - np.logaddexp.reduce(logits))
                drawn[: self.n_hard] = rng.choice(pool, size=self.n_hard, p=probabilities / probabilities.sum())
                in_pool = dict(zip(pool.tolist(), probabilities, strict=True))
                q = (1 - share) * q + share * np.array([in_pool.get(row, 0.0) for row in drawn.tolist()])
            rows[i], log_q[i] = drawn, np.log(q)
        return Negatives(rows, log_q)


def _skipping(numbers: np.ndarray, excluded: Sequence[int]) -> np.ndarray:
    """`numbers` counted over the rows that are left without `excluded` (ascending), as rows."""
    for row in excluded:
        numbers = numbers + (numbers >= row)
    return numbers


def _uniform(rng: np.random.Generator, n_entities: int, n: int, excluded: set[int]) -> list[int]:
    """`n` different rows of `range(n_entities)` outside `excluded`, or all there are."""
    if n_entities - len(excluded) <= 4 * n:
        return rng.permutation([row for row in range(n_entities) if row not in excluded])[:n].tolist()
    drawn: dict[int, None] = {}
    while len(drawn) < n:
        drawn.update((row, None) for row in rng.integers(n_entities, size=2 * n).tolist() if row not in excluded)
    return list(drawn)[:n]


def make_random_negatives(n: int = 8, replace: bool = False, in_batch: bool | None = None) -> NegativeSampler:
    """`spacy_pel.RandomNegatives.v1`: `n` uniform negatives a mention, drawn without replacement or, as `NCELoss` needs
    them, with it."""
    return NegativeSampler(n, 0, "iid" if replace else "top", in_batch=in_batch)


def make_hard_negatives(
    n: int = 8, draw: Draw = "top", pool: int = 1000, in_batch: bool | None = None
) -> NegativeSampler:
    """`spacy_pel.HardNegatives.v1`: `n` hard negatives a mention; see `NegativeSampler` for the rest."""
    return NegativeSampler(n, 100, draw, pool, in_batch)


def make_mixed_negatives(
    n: int = 8, p: float = 50, draw: Draw = "top", pool: int = 1000, in_batch: bool | None = None
) -> NegativeSampler:
    """`spacy_pel.MixedNegatives.v1`: `p` per cent of `n` hard, the rest uniform."""
    return NegativeSampler(n, p, draw, pool, in_batch)
