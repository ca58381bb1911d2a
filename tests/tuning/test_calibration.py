"""The logistic curve against scikit-learn's, and the reliability of hand-made links."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.tuning.calibration import (
    Calibration,
    calibration_error,
    calibration_metrics,
    fit,
    fit_ranked,
    reliability,
)


def test_it_finds_the_curve_that_made_the_links():
    rng = np.random.default_rng(0)
    scores = rng.normal(0.1, 0.2, size=20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(8 * scores - 0.5)))
    found = fit(scores, right)
    assert (found.slope, found.intercept) == (pytest.approx(8, rel=0.05), pytest.approx(-0.5, abs=0.05))
    probabilities = np.array([found.probability(score) for score in scores])
    assert calibration_error(reliability(probabilities, right)) < 0.01


def test_it_is_the_maximum_of_the_likelihood():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    scores = rng.normal(size=300)
    right = rng.random(300) < 1 / (1 + np.exp(-(2 * scores + 1)))
    n_right, n_wrong = right.sum(), (~right).sum()
    shares = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    model = linear_model.LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000)
    model.fit(np.tile(scores, 2)[:, None], [1] * 300 + [0] * 300, sample_weight=np.concatenate([shares, 1 - shares]))
    found = fit(scores, right)
    assert found.slope == pytest.approx(model.coef_[0, 0], rel=1e-4)
    assert found.intercept == pytest.approx(model.intercept_[0], rel=1e-4)


@pytest.mark.parametrize("scores", [[0.1, 0.2, 0.8, 0.9], [-0.3, 0.5, 30.0, 80.0]])
def test_links_that_a_score_parts(scores):
    found = fit(np.array(scores), np.array([False, False, True, True]))
    probabilities = [found.probability(score) for score in scores]
    assert probabilities == sorted(probabilities) and 0 < probabilities[1] < 0.5 < probabilities[2] < 1
    assert found.probability(-1e9) == pytest.approx(0) and found.probability(-math.inf) == 0


def test_scores_that_say_nothing_or_the_opposite_give_the_share():
    right = np.array([True, True, True, False])
    for scores in ([0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.9]):
        found = fit(np.array(scores), right)
        assert found.slope == pytest.approx(0, abs=1e-6)
        assert found.probability(0.7) == pytest.approx(np.mean([4 / 5, 4 / 5, 4 / 5, 1 / 3]), abs=1e-6)


def test_equal_scores_that_are_not_exactly_representable_give_their_share():
    curve = fit(np.full(3, 0.1), np.array([True, False, False]))
    assert curve.slope < 1 and curve.probability(0.1) == pytest.approx((2 / 3 + 1 / 4 + 1 / 4) / 3)
    assert curve.probability(0.1001) == pytest.approx(curve.probability(0.1), abs=1e-3)


def test_all_links_right():
    found = fit(np.array([0.1, 0.5, -math.inf]), np.array([True, True, False]))
    assert found.probability(0.3) == pytest.approx(3 / 4)


def test_no_candidate_at_all():
    with pytest.raises(ValueError, match="no mention has a candidate"):
        fit(np.array([-math.inf]), np.array([False]))


def test_reliability_by_hand():
    probabilities = np.array([0.05, 0.15, 0.12, 0.95, 1.0])
    bins = reliability(probabilities, np.array([False, True, False, True, True]))
    assert [tuple(one) for one in bins] == [
        (1, pytest.approx(0.05), 0.0),
        (2, pytest.approx(0.135), 0.5),
        (2, pytest.approx(0.975), 1.0),
    ]
    assert calibration_error(bins) == pytest.approx((0.05 + 2 * 0.365 + 2 * 0.025) / 5)
    assert calibration_error([]) is None
    assert Calibration(0.0, 0.0).probability(99.0) == 0.5


def test_the_links_of_annotated_mentions_count():
    ranked = [
        RankedMention(("A",), [("A", 0.9), ("B", 0.1)]),
        RankedMention(("A",), [("B", 0.2), ("A", 0.1)]),
        RankedMention(("NIL",), [("A", 0.1)]),
        RankedMention((), [("A", 0.5)]),
        RankedMention(("A",), []),
    ]
    assert fit_ranked(ranked) == fit(np.array([0.9, 0.2, 0.1]), np.array([True, False, False]))
    measured = calibration_metrics([one._replace(probability=1 / 4 if one.candidates else None) for one in ranked])
    assert measured["reliability"] == [
        {"n": 1, "probability": 0.0, "right": 0.0},
        {"n": 3, "probability": pytest.approx(1 / 4), "right": pytest.approx(1 / 3)},
    ]
    assert measured["link_ece"] == pytest.approx(3 / 4 * (1 / 3 - 1 / 4))
    assert measured["score_ece"] == pytest.approx((0.1 + 0.2 + 0.1 + 0.0) / 4)


@pytest.mark.filterwarnings("error")
def test_widely_spread_scores_are_fitted_to_the_optimum():
    rng = np.random.default_rng(0)
    for n in (5, 50, 2000):
        for steep in (0.5, 30.0):
            scores = 10 * rng.standard_t(1.2, size=n)
            right = rng.random(n) < 0.5 + 0.5 * np.tanh(np.clip(steep * scores, -500, 500) / 2)
            fitted = fit(scores, right)
            targets = np.where(right, (right.sum() + 1) / (right.sum() + 2), 1 / ((~right).sum() + 2))
            away = 0.5 + 0.5 * np.tanh((fitted.slope * scores + fitted.intercept) / 2) - targets
            assert abs(away.mean()) < 1e-6 and abs((away * scores).sum() / np.abs(scores).sum()) < 1e-6
