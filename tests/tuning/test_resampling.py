"""What is expected of other documents, on mentions whose scores are known."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.tuning.enough import few_for_threshold, few_for_weights
from spacy_pel.tuning.nil import Outcomes, Target, average_precision, threshold_of
from spacy_pel.tuning.resampling import nil_elsewhere, recall_interval


def outcomes(n, n_nil, seed=0):
    """Scores that overlap, of n mentions."""
    rng = np.random.default_rng(seed)
    nil = np.arange(n) < n_nil
    return Outcomes(rng.normal(size=n) - nil, nil, np.where(nil, np.inf, 1.0))


def f1(own, threshold):
    under = own.scores < threshold
    return 2 * (under & own.nil).sum() / (under.sum() + own.nil.sum())


def test_two_nil_mentions_promise_no_more_than_they_can():
    own = Outcomes(np.array([-5.0, -4.0, *np.linspace(-1, 1, 98)]), np.arange(100) < 2, np.ones(100))
    assert f1(own, threshold_of(own, None)) == 1  # on what it was tuned on
    others = outcomes(4000, 800, seed=1)
    few = outcomes(60, 4, seed=2)
    promised = nil_elsewhere(few, range(60)).f1
    assert promised.low <= f1(others, threshold_of(few, None)) + 0.1 and promised.mean < f1(
        few, threshold_of(few, None)
    )


def test_it_is_what_other_documents_give():
    own, others = outcomes(1000, 200), outcomes(20_000, 4000, seed=1)
    found = nil_elsewhere(own, np.arange(1000) // 5)
    promised = found.f1
    assert promised.low < f1(others, threshold_of(own, None)) < promised.high
    assert promised.high - promised.low < 0.2
    assert found.auprc == pytest.approx(average_precision(others.nil, -others.scores), abs=0.05)
    assert found == nil_elsewhere(own, np.arange(1000) // 5) != nil_elsewhere(own, np.arange(1000) // 5, seed=1)
    assert found == nil_elsewhere(own, 1000 - np.arange(1000) // 5)  # whatever the documents are called


def test_what_is_fitted_is_measured_where_it_was_not_fitted():
    """Labels learnt by heart say nothing of others."""
    own = outcomes(400, 80)

    def by_heart(inside):
        known = np.random.default_rng(len(inside)).normal(size=400)
        known[inside] = np.where(own.nil[inside], -9, 9)
        return known

    found = nil_elsewhere(own, range(400), fit=by_heart)
    assert found.auprc == pytest.approx(0.2, abs=0.06) and found.auprc < nil_elsewhere(own, range(400)).auprc


def test_documents_are_drawn_whole():
    """Mentions of a document that are all alike say as much as one of them."""
    hits = np.repeat([True, False] * 20, 25)
    whole, single = recall_interval(hits, np.repeat(np.arange(40), 25)), recall_interval(hits, range(1000))
    assert whole.high - whole.low > 3 * (single.high - single.low) and single.low < 0.5 < single.high


@pytest.mark.parametrize("own", [outcomes(0, 0), outcomes(10, 0), outcomes(10, 10), outcomes(30, 1)])
def test_too_little_to_tell(own):
    assert nil_elsewhere(own, range(len(own.scores))) is None
    assert nil_elsewhere(own, range(len(own.scores)), Target("precision", 1.0)) is None


def test_no_mention_in_the_kb():
    assert recall_interval(np.zeros(0, dtype=bool), []) is None


def test_what_was_too_little_is_said():
    assert few_for_weights(50) is None and "12 mentions in the KB are too few" in few_for_weights(12)
    assert few_for_weights(12, or_names=False).endswith("Annotate 50 or more.")
    assert few_for_threshold(20, 20) is None
    assert "2 NIL mentions are too few" in few_for_threshold(2, 100)
    assert "3 mentions in the KB are too few" in few_for_threshold(100, 3)
    assert few_for_threshold(2, 100).endswith("Annotate 20 or more, or tune to the names of the KB, without a corpus.")
    assert few_for_threshold(2, 100, or_names=False).endswith("Annotate 20 or more.")
