"""Scores that take the best of an entity's vectors (Zhang & Stratos 2021, eq. 9): multi-vector and sum-of-max."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from ...checks import check_count
from ...kb.several import Several, Vectors
from ..several_pooling import FirstTokens
from .score import MOST_VECTORS, SCORE, ScoreOfProducts, sum_of_maxima


@dataclass(frozen=True)
class MultiVector(ScoreOfProducts):
    """The best inner product of the mention's first vector M₁ with the first m vectors E₁ … E_m of an entity.

        s = max_{j ≤ m} M₁ · E_j

    An index holds m vectors an entity and finds it. With m = 1 it is the dual score of first vectors.

    Attributes:
        m: How many vectors of an entity count; of a shorter one, as many as it has tokens.

    Raises:
        PelError: m is no number from 1 to 512.
    """

    m: int = 8
    registered: ClassVar[str] = "spacy_pel.MultiVectorScore.v1"
    similarities: ClassVar[tuple[str, ...]] = ("dot", "cosine")
    shares_towers: ClassVar[bool] = False
    one_vector: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count(SCORE, "m", self.m, least=1, most=MOST_VECTORS)

    def pooling_of_entities(self, kind: str, unit_length: bool) -> FirstTokens:
        """See `Score`."""
        return FirstTokens(self.m, unit_length)

    def of_products(self, products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
        """See `ScoreOfProducts`."""
        return sum_of_maxima(products, of_mention, of_entity)


@dataclass(frozen=True)
class SumOfMax(ScoreOfProducts):
    """For every vector M_i of the mention its best inner product with a vector E_j of the entity, all added up.

        s = Σ_i max_j M_i · E_j

    All tokens of both take part, padding none: in the code of its authors padding of an entity does. An index holds all
    token vectors. A search gives the mean over i in place of the sum: the order of entities is the same.
    """

    registered: ClassVar[str] = "spacy_pel.SumOfMax.v1"
    similarities: ClassVar[tuple[str, ...]] = ("dot",)
    shares_towers: ClassVar[bool] = True
    one_vector: ClassVar[bool] = False

    def pooling_of_mentions(self, kind: str, unit_length: bool) -> FirstTokens:
        """See `Score`."""
        return FirstTokens(None, unit_length)

    def pooling_of_entities(self, kind: str, unit_length: bool) -> FirstTokens:
        """See `Score`."""
        return FirstTokens(None, unit_length)

    def of_products(self, products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
        """See `ScoreOfProducts`."""
        return sum_of_maxima(products, of_mention, of_entity)

    def queries(self, mentions: Vectors) -> Several:
        """See `Score`: each vector over their number, by which a score is the mean over the tokens of the mention, and
        not the larger the longer its text is."""
        assert isinstance(mentions, Several)
        shares = np.repeat(1 / np.maximum(mentions.counts, 1), mentions.counts).astype(np.float32)
        return Several(mentions.vectors * shares[:, None], mentions.counts)
