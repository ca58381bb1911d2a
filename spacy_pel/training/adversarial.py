"""`spacy_pel.FGSM.v1`: adversarial input embeddings from the gradient that the clean backward pass has given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from thinc.api import get_array_module
from thinc.types import Floats3d

from ..checks import check_choice, check_number
from ..models.encoder import LAYERS, NORMALISED

SECTION = "[adversarial] spacy_pel.FGSM.v1"
NO_FGSM = "; for no FGSM set adversarial = null"
ENTITY, ALL = TOKENS = ("entity", "all")
LARGEST = 1000.0  # input embeddings are a ten-thousandth of that


@dataclass(frozen=True)
class FGSM:
    """The fast gradient sign method on the entity tower's input embeddings (Wiatrak et al. 2022, eq. 5-8).

        z⁻_adv = z⁻ + ε sign(∇_z s(m, e⁻)),   z⁺_adv = z⁺ - ε sign(∇_z s(m, e⁺)),   L = L(m, P) + λ L(m, P_adv)

    All losses fall with s⁺ and rise with s⁻. So where an entity row stands for one (mention, entity) pair (layout
    "per_mention") both steps are ε sign(∇_z L), exactly. Where mentions share rows ("shared") ∇_z L is the sum over
    them, and the step is an approximation: the direction that hurts the batch most. Beside a `Distillation` L is the
    sum of both losses, and the second may fall with s⁻: the step then goes up that sum, which is not that of eq. 7.

    Attributes:
        epsilon: ε, the size of the step.
        weight: λ.
        layer: What z is: "sum", of the word, position and segment embeddings, as in the paper; "normalised", that sum
            behind its LayerNorm and dropout, where it has about the same size in every encoder, and so has ε.
        tokens: Of a `pel_ranker`, whose rows have mention and entity: "entity", the step is on the entity's part;
            "all", on the whole row. With `rows = "mentions"` the candidates of a mention share its tokens: "all" gives
            these one step, up the sum of the gradients of all of them, which is an approximation. A `pel_linker` has
            "entity" only.

    Raises:
        PelError: epsilon is not more than 0, weight is less, or there is no such layer or choice of tokens.
    """

    epsilon: float = 0.01
    weight: float = 1.0
    layer: str = NORMALISED
    tokens: str = ENTITY

    def __post_init__(self) -> None:
        check_number(SECTION, "epsilon", self.epsilon, over=0, most=LARGEST, hint=NO_FGSM)
        check_number(SECTION, "weight", self.weight, least=0, most=LARGEST, hint=NO_FGSM)
        check_choice(SECTION, "layer", self.layer, LAYERS)
        check_choice(SECTION, "tokens", self.tokens, TOKENS)

    def step(self, gradient: Floats3d, mask: np.ndarray) -> Floats3d:
        """Return ε sign(gradient), 0 at padding.

        Args:
            gradient: ∂L/∂z, (n, t, hidden).
            mask: (n, t) bool, True at real tokens.
        """
        xp = get_array_module(gradient)
        return self.epsilon * xp.sign(gradient) * xp.asarray(mask)[:, :, None]
