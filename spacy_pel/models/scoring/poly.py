"""Scores that let vectors of an entity attend over what learnt codes read of a mention (Zhang & Stratos 2021, eq. 9 and
appendix B): poly-encoder and its generalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ...checks import check_count
from ..several_pooling import Codes, FirstTokens
from .score import MOST_VECTORS, SCORE, ScoreOfProducts, sum_of_attended


@dataclass(frozen=True)
class PolyEncoder(ScoreOfProducts):
    """The first vector E₁ of the entity attends over what m codes O have read of the mention's tokens M.

        F = softmax(O Mᵀ) M,   s = Σ_j softmax(F E₁)_j F_j · E₁

    An index holds one vector an entity. A score is at most the largest F_j · E₁.

    Attributes:
        m: How many codes there are. They are learnt with the mention tower.

    Raises:
        PelError: m is no number from 1 to 512.
    """

    m: int = 16
    registered: ClassVar[str] = "spacy_pel.PolyEncoder.v1"
    similarities: ClassVar[tuple[str, ...]] = ("dot",)
    shares_towers: ClassVar[bool] = False
    one_vector: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count(SCORE, "m", self.m, least=1, most=MOST_VECTORS)

    def pooling_of_mentions(self, kind: str, unit_length: bool) -> Codes:
        """See `Score`."""
        return Codes(self.m)

    def of_products(self, products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
        """See `ScoreOfProducts`."""
        return sum_of_attended(products, of_mention, of_entity)


@dataclass(frozen=True)
class GeneralPoly(PolyEncoder):
    """`PolyEncoder` with the first vectors E₁ … E_m′ of the entity, whose scores are added up.

        s = Σ_{i ≤ m′} Σ_j softmax(F E_i)_j F_j · E_i

    An index holds m′ vectors an entity. With m′ = 1 it is `PolyEncoder`.

    Attributes:
        m: How many codes there are.
        entity_vectors: m′, how many vectors of an entity count; of a shorter one, as many as it has tokens.

    Raises:
        PelError: m or entity_vectors is no number from 1 to 512.
    """

    entity_vectors: int = 8
    registered: ClassVar[str] = "spacy_pel.GeneralPoly.v1"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(SCORE, "entity_vectors", self.entity_vectors, least=1, most=MOST_VECTORS)

    def pooling_of_entities(self, kind: str, unit_length: bool) -> FirstTokens:
        """See `Score`."""
        return FirstTokens(self.entity_vectors, unit_length)

    @property
    def terms(self) -> int:
        """See `Score`: one for each vector of the entity."""
        return self.entity_vectors
