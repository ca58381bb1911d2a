"""The two candidate layouts: which rows are encoded, which count for and against each mention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spacy_pel.errors import PelError
from spacy_pel.models.scoring.dual import Dual
from spacy_pel.training.layouts import per_mention, shared
from spacy_pel.training.losses import ProxyLoss
from spacy_pel.training.negatives import DrawnNegatives, RandomNegatives
from spacy_pel.training.objective import Objective

GOLD = np.array([4, 9])
CORRECT = [[4, 5], [9]]
NEGATIVES = DrawnNegatives(np.array([[9, 7, -1], [5, 7, 2]]))


def test_per_mention_gives_every_pair_a_row():
    c = per_mention(GOLD, CORRECT, NEGATIVES)
    assert c.entity_places.tolist() == [4, 9, 7, 4, 9, 5, 7, 2]  # row 3 stands in for the missing negative
    assert c.positives.tolist() == [[True, False, False, False]] * 2
    assert c.negatives.tolist() == [[False, True, True, False], [False, True, True, True]]


def test_shared_scores_the_union_and_masks_own_correct_ids():
    c = shared(GOLD, CORRECT, NEGATIVES)
    assert c.entity_places.tolist() == [2, 4, 5, 7, 9]
    assert c.positives.tolist() == [[False, True, False, False, False], [False, False, False, False, True]]
    assert c.negatives.tolist() == [[True, False, False, True, True], [True, True, True, True, False]]


@pytest.mark.parametrize("layout", [per_mention, shared])
def test_pair_scores_are_dot_products_of_the_named_rows(layout):
    c = layout(GOLD, CORRECT, NEGATIVES)
    rng = np.random.default_rng(0)
    mentions, kb = rng.normal(size=(2, 3)), rng.normal(size=(10, 3))
    scores = c.scores(Dual(), torch.tensor(mentions), torch.tensor(kb[c.entity_places])).numpy()
    columns = c.entity_places.reshape(2, -1) if layout is per_mention else np.stack([c.entity_places, c.entity_places])
    np.testing.assert_allclose(scores, np.einsum("md,mcd->mc", mentions, kb[columns]))


def test_an_unknown_layout_is_named():
    with pytest.raises(PelError, match="layout is 'both'; choose one of shared, per_mention"):
        Objective(ProxyLoss(), None, RandomNegatives(), "both")


def test_per_mention_with_the_golds_of_the_batch():
    gold = np.array([4, 9, 4, 5])
    negatives = DrawnNegatives(np.array([[7], [2], [3], [9]]))
    c = per_mention(gold, [[4, 5], [9], [4, 5], [5]], negatives, in_batch=True)
    assert c.entity_places.tolist() == [4, 7, 9, 2, 4, 3, 5, 9]  # no row more than without
    golds = c.negatives[:, 2:]  # of 4, 9, 4 again (never a candidate twice), 5
    assert golds.tolist() == [
        [False, True, False, False],
        [True, False, False, True],
        [False, True, False, False],
        [True, False, False, False],  # it drew 9 itself
    ]
    assert c.positives[:, 1:].sum() == 0 and c.positives[:, 0].all()
    rng = np.random.default_rng(0)
    mentions, kb = rng.normal(size=(4, 3)), rng.normal(size=(10, 3))
    scores = c.scores(Dual(), torch.tensor(mentions), torch.tensor(kb[c.entity_places])).numpy()
    np.testing.assert_allclose(scores[:, :2], np.einsum("md,mcd->mc", mentions, kb[c.entity_places.reshape(4, 2)]))
    np.testing.assert_allclose(scores[:, 2:], mentions @ kb[gold].T)


def test_shared_without_the_golds_of_the_batch():
    c = shared(GOLD, CORRECT, NEGATIVES, in_batch=False)
    assert c.entity_places.tolist() == [2, 4, 5, 7, 9]  # 9 and 5 were drawn, 4 is only another mention's gold entity
    assert c.negatives.tolist() == [[True, False, False, True, True], [True, False, True, True, False]]


def test_the_probabilities_of_draws_stand_beside_their_negatives():
    c = per_mention(GOLD, CORRECT, DrawnNegatives(NEGATIVES.places, np.arange(-6.0, 0.0).reshape(2, 3)))
    assert c.log_q.tolist() == [[0, -6, -5, -4], [0, -3, -2, -1]]
    assert per_mention(GOLD, CORRECT, NEGATIVES).log_q is None
