"""Which wrong entities a mention is trained against: random ones, the model's own best wrong ones, or a mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from ..checks import check_choice, check_count, check_flag, check_number
from ..errors import PelError
from ..kb.several import Vectors
from .draws import (
    NONE,
    CanSearch,
    ScoredPlaces,
    best_wrong,
    independent,
    softmax_without_replacement,
    uniform_without_replacement,
)

SECTION = "[components.pel_linker.negatives]"
MOST_NEGATIVES = 100_000
Draw = Literal["top", "sample", "iid"]


class DrawnNegatives(NamedTuple):
    """The negatives of m mentions, n each.

    Attributes:
        places: (m, n) int64, entities as places in the list that is trained with; `NONE` where a small KB has no more.
        log_q: (m, n) float64, the log-probability with which each was drawn, where the draws are independent.
        n_hard: (m,), how many of each mention are hard: the first.
    """

    places: np.ndarray
    log_q: np.ndarray | None = None
    n_hard: np.ndarray | None = None

    def hard(self) -> np.ndarray:
        """(m, h), those that are hard; `NONE` where a mention has fewer of them than another."""
        if self.n_hard is None:
            return self.places[:, :0]
        columns = np.arange(self.n_hard.max(initial=0))
        return np.where(columns < self.n_hard[:, None], self.places[:, columns], NONE)


class NegativeSampler(ABC):
    """Draws `n` negatives a mention, `percent_hard` of them hard and the rest uniform over the KB: none of the correct
    entities of the mention, and none twice unless `draw` is "iid".

    Attributes:
        n: Negatives a mention; 0, of random ones, where those of a file are enough (see `Distillation`).
        in_batch: Whether the correct entities of a batch's other mentions are negatives too; None: as the layout has
            it.
    """

    n: int
    in_batch: bool | None

    @property
    @abstractmethod
    def percent_hard(self) -> float:
        """How many of 100 negatives are hard."""

    @property
    @abstractmethod
    def draw(self) -> Draw:
        """How hard ones are taken: "top", the best-scoring ones (PEL); "sample", without replacement from the softmax
        of the training logits over the `pool` (hard-NCE, eq. 8); "iid", with replacement from it, and uniform ones with
        replacement too, as `NCELoss` needs them."""

    @property
    def pool(self) -> int:
        """How many of the best-scoring wrong entities "sample" and "iid" draw from."""
        return 0

    @property
    def rescored(self) -> int:
        """How many of the best-scoring entities are encoded again with each batch, so that hard negatives are the best
        of these under the present weights. 0: none; hard ones are those of the latest refresh."""
        return 0

    def __post_init__(self) -> None:
        check_count(SECTION, "n", self.n, least=1 if self.percent_hard else 0, most=MOST_NEGATIVES)
        check_number(SECTION, "p", self.percent_hard, least=0, most=100)
        self._check_mixture()
        check_flag(SECTION, "in_batch", self.in_batch, optional=True)
        check_choice(SECTION, "draw", self.draw, get_args(Draw))
        check_count(SECTION, "pool", self.pool)
        if self.draw != "top" and self.pool < self.n_hard:
            raise PelError(
                f"{SECTION}: pool = {self.pool} is less than the {self.n_hard} hard negatives "
                "that are drawn from it; make it larger."
            )
        check_count(SECTION, "rescored", self.rescored)
        if 0 < self.rescored < self.depth:
            raise PelError(
                f"{SECTION}: rescored = {self.rescored} is less than the {self.depth} best wrong entities that are "
                "wanted of them; make it larger, or 0."
            )

    def _check_mixture(self) -> None:
        """Check that a mixture has negatives of both kinds, hard and random."""
        if self.percent_hard in (0, 100) or 0 < self.n_hard < self.n:
            return
        least = 50 // self.n + 1
        advice = f"make p {least} to {100 - least}, or n larger" if self.n > 1 else "make n larger"
        raise PelError(
            f"{SECTION}: of n = {self.n} negatives p = {self.percent_hard} per cent are {self.n_hard}, so that none is "
            f"{'random' if self.n_hard else 'hard'}; {advice} (p = 0 and p = 100 ask for one kind)."
        )

    @property
    def n_hard(self) -> int:
        """The hard ones of `n`, to the nearest whole number; a half counts as one more."""
        return int(self.n * self.percent_hard / 100 + 0.5)

    @property
    def depth(self) -> int:
        """How many of the best wrong entities are searched."""
        return self.n_hard if self.draw == "top" else self.pool

    def sample(
        self,
        rng: np.random.Generator,
        correct: Sequence[Sequence[int]],
        n_entities: int,
        queries: Vectors,
        index: CanSearch | None = None,
        logit_scale: float = 1.0,
    ) -> DrawnNegatives:
        """Draw the negatives of a batch.

        Args:
            rng: The source of randomness.
            correct: For each of m mentions the places of the entities that are right.
            n_entities: The number of entities that are trained with.
            queries: The vectors of m mentions, which the index is searched with.
            index: Of the entities; needed for hard negatives.
            logit_scale: What makes a training logit of a score.

        Raises:
            PelError: Hard negatives are wanted without an index.
        """
        if self.n_hard and index is None:
            raise PelError(
                "Hard negatives need the KB's vectors: set [training.before_update] to @callbacks = "
                '"spacy_pel.refresh_negatives.v1", or choose spacy_pel.RandomNegatives.v1.'
            )
        hard = best_wrong(index, queries, correct, self.depth) if index is not None and self.n_hard else None
        places = np.full((len(correct), self.n), NONE, dtype="int64")
        log_q = np.zeros(places.shape) if self.draw == "iid" else None
        n_hard = np.zeros(len(correct), dtype="int64")
        for i, own in enumerate(correct):
            found = None if hard is None else hard[i]
            n_found = 0 if found is None else len(found[1])
            n_hard[i] = self.n_hard if n_found and log_q is not None else min(self.n_hard, n_found)
            if log_q is None:
                drawn = self._different(rng, own, n_entities, found, logit_scale)
                places[i, : len(drawn)] = drawn
            elif with_q := independent(rng, n_entities, own, self.n, found, self.n_hard, logit_scale):
                places[i], log_q[i] = with_q
        return DrawnNegatives(places, log_q, n_hard)

    def _different(
        self,
        rng: np.random.Generator,
        own: Sequence[int],
        n_entities: int,
        found: ScoredPlaces | None,
        logit_scale: float,
    ) -> list[int]:
        """Draw the negatives of one mention, hard ones first, none twice; `n` of them, or all there are."""
        hard: list[int] = []
        if found is not None:
            top = self.draw == "top"
            hard = found[1].tolist() if top else softmax_without_replacement(rng, found, self.n_hard, logit_scale)
        return hard + uniform_without_replacement(rng, n_entities, self.n - len(hard), {*own, *hard})


@dataclass(frozen=True)
class RandomNegatives(NegativeSampler):
    """Takes uniform negatives.

    Attributes:
        n: Negatives a mention.
        replace: Draw with replacement, as `NCELoss` needs it.
        in_batch: Whether the correct entities of a batch's other mentions are negatives too; None: as the layout has
            it.
    """

    n: int = 8
    replace: bool = False
    in_batch: bool | None = None
    percent_hard: ClassVar[float] = 0

    def __post_init__(self) -> None:
        check_flag(SECTION, "replace", self.replace)
        super().__post_init__()

    @property
    def draw(self) -> Draw:
        """See `NegativeSampler.draw`."""
        return "iid" if self.replace else "top"


@dataclass(frozen=True)
class HardNegatives(NegativeSampler):
    """Takes the most similar wrong entities.

    Attributes:
        n: Negatives a mention.
        draw: See `NegativeSampler.draw`.
        pool: The best-scoring wrong entities that "sample" and "iid" draw from.
        in_batch: Whether the correct entities of a batch's other mentions are negatives too; None: as the layout has
            it.
        rescored: See `NegativeSampler.rescored`.
    """

    n: int = 8
    draw: Draw = "top"
    pool: int = 1000
    in_batch: bool | None = None
    rescored: int = 0
    percent_hard: ClassVar[float] = 100


@dataclass(frozen=True)
class MixedNegatives(NegativeSampler):
    """Takes the most similar wrong entities and uniform ones.

    Attributes:
        n: Negatives a mention.
        p: How many per cent of them are hard: between 0 and 100, one at least, and not all.
        draw: See `NegativeSampler.draw`.
        pool: The best-scoring wrong entities that "sample" and "iid" draw from.
        in_batch: Whether the correct entities of a batch's other mentions are negatives too; None: as the layout has
            it.
        rescored: See `NegativeSampler.rescored`.
    """

    n: int = 8
    p: float = 50
    draw: Draw = "top"
    pool: int = 1000
    in_batch: bool | None = None
    rescored: int = 0

    @property
    def percent_hard(self) -> float:
        """See `p`."""
        return self.p
