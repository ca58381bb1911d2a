"""What a score is: how the vectors of a mention and of an entity make a number, and what of it an index can find."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, cast

import torch

from ...checks import refused
from ...kb.several import Vectors
from ..inputs import SECTION
from ..pooling import Pooling
from ..several_pooling import Codes, FirstTokens
from .bags import Given, as_bags

SCORE = f"{SECTION[:-1]}.score]"
MOST_VECTORS = 512  # of a row, and codes
PRODUCTS_AT_ONCE = 1 << 24  # in memory
MASKED = -1e30  # finite: its softmax is 0, and no gradient of it is nan

Pools = Pooling | FirstTokens | Codes


class Score(ABC):
    """A score function, chosen in the section `score` of a bi-encoder.

    It says what each tower keeps of a row, how pairs are scored in training, and how an index of what the entity tower
    keeps is searched.

    Attributes:
        registered: The name under which a config chooses it.
        similarities: Those of a bi-encoder that it goes with.
        shares_towers: Whether one tower can read both sides.
        one_vector: Whether a mention has one vector. The score is then the largest inner product with a vector of the
            entity, and an index finds it; else what it finds is scored again.
    """

    registered: ClassVar[str]
    similarities: ClassVar[tuple[str, ...]]
    shares_towers: ClassVar[bool]
    one_vector: ClassVar[bool]

    def pooling_of_mentions(self, kind: str, unit_length: bool) -> Pools:
        """What is kept of a mention's row: one vector, by a pooling with this `kind` and `unit_length`, or more."""
        return Pooling(kind, unit_length)

    def pooling_of_entities(self, kind: str, unit_length: bool) -> Pools:
        """What is kept of an entity's row."""
        return Pooling(kind, unit_length)

    @abstractmethod
    def all_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """Score each of m mentions against each of n entities: (m, n)."""

    @abstractmethod
    def own_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """Score each of m mentions against c entities of its own, which lie mention by mention (m · c): (m, c)."""

    @property
    def terms(self) -> int:
        """How many inner products, or means of them, add up to the score that a search gives."""
        return 1

    def queries(self, mentions: Vectors) -> Vectors:
        """The vectors that a search compares with those of entities: those of the mentions, scaled where scores of one
        mention would not compare with those of another, as a NIL threshold and weights of names need."""
        return mentions

    @property
    def setting(self) -> dict[str, Any] | None:
        """The section of a config that makes this score; None for what a bi-encoder without one has."""
        return {"@architectures": self.registered, **asdict(cast(Any, self))}

    def check(self, settings: Mapping[str, Any]) -> None:
        """Check that it goes with the other settings of a bi-encoder.

        Raises:
            PelError: It does not.
        """
        if settings["similarity"] not in self.similarities:
            said = " or ".join(f'"{one}"' for one in self.similarities)
            raise self._refused(settings, "similarity", f"make it {said}")
        if settings["pooling"] != "cls":
            raise self._refused(settings, "pooling", 'make it "cls": single tokens are scored, from the first on')
        if settings["mentions"] != "windows":
            raise self._refused(settings, "mentions", 'make it "windows": each mention is read in a row of its own')
        if settings["shared_towers"] and not self.shares_towers:
            raise self._refused(settings, "shared_towers", "make it false: of mentions other vectors are kept")

    def _refused(self, settings: Mapping[str, Any], key: str, hint: str) -> Exception:
        return refused(f"{SECTION}: {self.registered}", key, settings[key], hint)


class ScoreOfProducts(Score):
    """A score that is made of the inner products of all vectors of a mention with all vectors of an entity."""

    def all_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """See `Score`."""
        m, e = as_bags(mentions), as_bags(entities)
        at_once = max(PRODUCTS_AT_ONCE // max(m.mask.numel() * e.mask.shape[1], 1), 1)
        blocks = zip(e.vectors.split(at_once), e.mask.split(at_once), strict=True)
        products = ((torch.einsum("mqd,cnd->mcqn", m.vectors, vectors), mask) for vectors, mask in blocks)
        return torch.cat([self.of_products(own, m.mask[:, None], mask[None]) for own, mask in products], dim=1)

    def own_pairs(self, mentions: Given, entities: Given) -> torch.Tensor:
        """See `Score`."""
        m, e = as_bags(mentions), as_bags(entities)
        own, mask = (one.unflatten(0, (len(m), -1)) for one in (e.vectors, e.mask))
        products = torch.einsum("mqd,mcnd->mcqn", m.vectors, own)
        return self.of_products(products, m.mask[:, None], mask)

    @abstractmethod
    def of_products(self, products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
        """Score pairs.

        Args:
            products: (m, c, q, n), of the q vectors of a mention with the n of each of c entities.
            of_mention: (m, 1, q) bool, which of these q there are.
            of_entity: (m or 1, c, n) bool, which of these n there are.

        Returns:
            (m, c).
        """


def sum_of_maxima(products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
    """Σ_i max_j of `products`, over what there is. For the arguments see `ScoreOfProducts.of_products`."""
    there = products.masked_fill(~of_entity[:, :, None], MASKED)
    largest = there.max(-1).values  # `amax` would keep all of it for the gradient
    return largest.masked_fill(~of_mention, 0).sum(-1)


def sum_of_attended(products: torch.Tensor, of_mention: torch.Tensor, of_entity: torch.Tensor) -> torch.Tensor:
    """Σ_j Σ_i softmax_i(p_ij) p_ij of `products` p, over what there is."""
    logits = products.masked_fill(~of_mention[..., None], MASKED)
    attended = (logits.softmax(-2) * products).sum(-2)
    return attended.masked_fill(~of_entity, 0).sum(-1)
