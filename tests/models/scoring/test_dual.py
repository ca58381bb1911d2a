"""The dual score: pairs are what an index finds by inner product."""

from __future__ import annotations

import numpy as np
import torch

from spacy_pel.models.scoring.dual import Dual

RNG = np.random.default_rng(0)
MENTIONS, ENTITIES = RNG.normal(size=(3, 4)), RNG.normal(size=(6, 4))


def test_all_pairs_are_the_inner_products():
    score = Dual()
    pairs = score.all_pairs(torch.tensor(MENTIONS), torch.tensor(ENTITIES)).numpy()
    expected = [[sum(a * b for a, b in zip(mention, entity)) for entity in ENTITIES] for mention in MENTIONS]
    np.testing.assert_allclose(pairs, expected)


def test_own_pairs_are_those_of_the_entities_that_lie_with_a_mention():
    score = Dual()
    own = score.own_pairs(torch.tensor(MENTIONS), torch.tensor(ENTITIES)).numpy()
    every = score.all_pairs(torch.tensor(MENTIONS), torch.tensor(ENTITIES)).numpy()
    np.testing.assert_allclose(own, [every[0, 0:2], every[1, 2:4], every[2, 4:6]])
