"""The tuned threshold against numbers worked out by hand and against trying every threshold there is."""

import math

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.tuning.nil import Target, nil_curve, tune_threshold

KB = {"A"}


def mentions(*scored):
    """(top score, is NIL) pairs as ranked mentions; a score of None is a mention without candidates."""
    return [
        RankedMention(("NIL",) if nil else ("A",), [] if score is None else [("A", score)]) for score, nil in scored
    ]


def test_by_hand():
    # In order: NIL .1, A .2, NIL .3 | A .5, A .9, NIL .95. Under .4 two of three are right, and two of three found.
    ranked = mentions((0.5, False), (0.3, True), (0.95, True), (0.1, True), (0.9, False), (0.2, False))
    tuned = tune_threshold([*ranked, RankedMention((), [("A", 0.35)])], KB)
    assert tuned.threshold == pytest.approx(0.4)
    assert (tuned.precision, tuned.recall, tuned.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert (tuned.n_mentions, tuned.n_nil) == (6, 3)


def test_a_clean_split_lies_halfway_and_reaches_one():
    tuned = tune_threshold(mentions((0.2, True), (0.4, True), (0.8, False)), KB)
    assert (tuned.threshold, tuned.f1) == (pytest.approx(0.6), 1)


def test_of_equally_good_thresholds_the_lowest():
    # Under the first score 2 * 1 / (1 + 2), under all four 2 * 2 / (4 + 2).
    tuned = tune_threshold(mentions((0.1, True), (0.2, False), (0.3, False), (0.4, True)), KB)
    assert tuned.threshold == pytest.approx(0.15)
    assert tuned.f1 == pytest.approx(2 / 3)


def test_equal_scores_are_never_parted():
    tuned = tune_threshold(mentions((0.5, True), (0.5, False), (0.5, True), (0.7, False)), KB)
    assert tuned.threshold == pytest.approx(0.6)
    assert tuned.precision == 2 / 3


def test_when_all_must_be_nil_the_threshold_is_finite_and_above_the_best_score():
    best = float(np.float32(0.7))
    tuned = tune_threshold(mentions((0.1, False), (best, True)), KB)
    assert np.float32(tuned.threshold) > np.float32(best)
    assert tuned.threshold == pytest.approx(best)


@pytest.mark.filterwarnings("error")
def test_mentions_without_candidates_are_under_every_threshold():
    tuned = tune_threshold(mentions((None, True), (-0.3, False)), KB)
    assert (tuned.threshold, tuned.f1) == (-0.3, 1)
    tuned = tune_threshold(mentions((None, True), (None, False)), KB)
    assert math.isfinite(tuned.threshold)


def test_neighbouring_floats_are_told_apart():
    low = 0.1
    high = math.nextafter(low, 1)
    tuned = tune_threshold(mentions((low, True), (high, False)), KB)
    assert low < tuned.threshold <= high


@pytest.mark.parametrize("seed", range(20))
def test_nothing_beats_it_and_link_metrics_agrees(seed):
    random = np.random.default_rng(seed)
    nil = random.random(60) < 0.4
    scores = np.round(random.normal(size=60) - nil, 1)  # many ties
    ranked = mentions(*zip(scores.tolist(), nil.tolist(), strict=True))
    tuned = tune_threshold(ranked, KB)
    best = max(link_metrics(ranked, KB, nil_threshold=t)["nil_f1"] for t in [*(np.unique(scores) - 0.05), 99.0])
    measured = link_metrics(ranked, KB, nil_threshold=tuned.threshold)
    assert tuned.f1 == pytest.approx(best)
    assert (measured["nil_precision"], measured["nil_recall"], measured["nil_f1"]) == pytest.approx(tuned[1:4])


@pytest.mark.parametrize("ranked", [[], mentions((0.1, False)), mentions((0.1, True), (0.2, True))])
def test_it_takes_both_kinds_of_mention(ranked):
    with pytest.raises(PelError, match=f"of {len(ranked)} mentions"):
        tune_threshold(ranked, KB)


def test_what_a_threshold_costs():
    # A .2 is right and called NIL; of the three in the KB that are right without a threshold, two are left.
    ranked = [*mentions((0.1, True), (0.2, False), (0.3, True), (0.5, False), (0.9, False))]
    ranked.append(RankedMention(("A",), [("B", 0.95), ("A", 0.9)]))  # linked, and wrong
    tuned = tune_threshold(ranked, KB)
    assert tuned.threshold == pytest.approx(0.4)
    assert (tuned.recall_at_1, tuned.linked_right) == (3 / 4, 2 / 4)


SCORED = mentions((0.1, True), (0.2, False), (0.3, True), (0.4, True), (0.5, False), (0.6, True), (0.7, False))


@pytest.mark.parametrize(
    ("target", "threshold", "precision", "recall"),
    [
        (Target("precision", 0.7), 0.45, 3 / 4, 3 / 4),
        (Target("precision", 0.8), 0.15, 1, 1 / 4),
        (Target("recall", 0.5), 0.45, 3 / 4, 3 / 4),
        (Target("recall", 0.8), 0.65, 4 / 6, 1),
        (Target("recall", 0.2), 0.15, 1, 1 / 4),
    ],
)
def test_a_target(target, threshold, precision, recall):
    tuned = tune_threshold(SCORED, KB, target)
    assert (tuned.threshold, tuned.precision, tuned.recall) == pytest.approx((threshold, precision, recall))


def test_a_target_out_of_reach_names_the_nearest():
    ranked = mentions((0.1, False), (0.2, True), (0.3, True), (0.4, False))
    message = "no threshold gives the NIL class a precision of 0.9; the nearest is precision=0.6666"
    with pytest.raises(PelError, match=message):
        tune_threshold(ranked, KB, Target("precision", 0.9))
    assert tune_threshold(ranked, KB, Target("precision", 0.6666)).threshold == pytest.approx(0.35)


def test_the_curve_by_hand():
    # In order: NIL .1, A .2, NIL .3 | A .5 (wrong), A .9: of three in the KB two are linked right without a threshold.
    ranked = mentions((0.5, False), (0.3, True), (0.1, True), (0.9, False), (0.2, False))
    ranked[0] = RankedMention(("A",), [("B", 0.5), ("A", 0.4)])
    curve = nil_curve([*ranked, RankedMention((), [("A", 0.35)])], KB)
    assert [point["threshold"] for point in curve[:4]] == pytest.approx([0.15, 0.25, 0.4, 0.7])
    assert [point["precision"] for point in curve] == pytest.approx([1, 1 / 2, 2 / 3, 2 / 4, 2 / 5])
    assert [point["recall"] for point in curve] == pytest.approx([1 / 2, 1 / 2, 1, 1, 1])
    assert [point["linked_right"] for point in curve] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3, 0])
    assert [point["all_recall_at_1"] for point in curve] == pytest.approx([3 / 5, 2 / 5, 3 / 5, 3 / 5, 2 / 5])
    assert [point["all_recall_at_64"] for point in curve] == pytest.approx([4 / 5, 3 / 5, 4 / 5, 3 / 5, 2 / 5])


def test_the_curve_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    nil = random.random(150) < 0.3
    scores = np.round(random.normal(size=150) - nil, 1)
    curve = nil_curve(mentions(*zip(scores.tolist(), nil.tolist(), strict=True)), KB)
    precision, recall, _ = sklearn.precision_recall_curve(nil, -scores)
    np.testing.assert_allclose([point["precision"] for point in curve], precision[-2::-1])
    np.testing.assert_allclose([point["recall"] for point in curve], recall[-2::-1])


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    ranked = mentions(*((i / 1000, i % 3 == 0) for i in range(1000)))
    curve = nil_curve(ranked, KB, most=50)
    assert len(curve) == 50 and curve[0]["threshold"] < 0.001 and curve[-1]["recall"] == 1
    assert [point["threshold"] for point in curve] == sorted(point["threshold"] for point in curve)
    point = curve[20]
    measured = link_metrics(ranked, KB, nil_threshold=point["threshold"])
    assert (point["precision"], point["recall"]) == pytest.approx((measured["nil_precision"], measured["nil_recall"]))
    for key in ("all_recall_at_1", "all_recall_at_64"):
        assert point[key] == pytest.approx(measured[key])


@pytest.mark.parametrize("ranked", [[], mentions((0.1, True)), mentions((0.1, False), (0.2, False))])
def test_no_curve_without_two_classes(ranked):
    assert nil_curve(ranked, KB) == []
