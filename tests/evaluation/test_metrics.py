"""The measures against numbers worked out by hand, and average precision against scikit-learn."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from spacy_pel.evaluation.metrics import average_precision, link_metrics
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.tuning.nil import nil_curve

KB = {"A", "B", "C"}


def ranked(gold, *candidates):
    return RankedMention(gold, candidates)


def at_rank(rank, score=0.9):
    """A mention of A that is found at `rank`."""
    wrong = [(f"X{i}", score - i * 0.001) for i in range(rank - 1)]
    return RankedMention(("A",), [*wrong, ("A", score - rank * 0.001)])


MENTIONS = [
    ranked(("A",), ("A", 0.9), ("B", 0.8)),  # rank 1
    ranked(("B",), ("A", 0.8), ("B", 0.7)),  # rank 2
    ranked(("C", "Z"), ("Y", 0.4), ("X", 0.3), ("Z", 0.2), ("C", 0.1)),  # composite, half of it in the KB: rank 3
    ranked(("A",)),  # nothing found
    ranked(("NIL",), ("A", 0.3)),  # NIL by annotation
    ranked(("Z",), ("B", 0.7)),  # NIL: the KB lacks it
    ranked((), ("A", 0.95)),  # unannotated
]


def test_counts_and_ranking():
    metrics = link_metrics(MENTIONS, KB)
    assert (metrics["n_mentions"], metrics["n_in_kb"], metrics["n_nil"], metrics["n_unannotated"]) == (6, 4, 2, 1)
    assert metrics["recall_at_1"] == 1 / 4
    assert metrics["recall_at_5"] == metrics["recall_at_16"] == metrics["recall_at_64"] == 3 / 4
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 0) / 4)
    assert metrics["nil_base_rate"] == 2 / 6


def test_recall_depths_are_inclusive():
    metrics = link_metrics([at_rank(rank) for rank in (1, 5, 6, 16, 17, 64, 65)], KB)
    assert [metrics[f"recall_at_{k}"] for k in (1, 5, 16, 64)] == [1 / 7, 2 / 7, 4 / 7, 6 / 7]


def test_seen_and_unseen_are_about_mentions_in_the_kb():
    metrics = link_metrics(MENTIONS, KB, train_ids={"A", "Z", "NIL"})
    assert metrics["seen_recall_at_1"] == 1 / 3  # A hit, C|Z missed (Z is seen), A missed
    assert metrics["unseen_recall_at_1"] == 0  # B missed
    without = link_metrics(MENTIONS, KB)
    assert without["seen_recall_at_1"] is without["unseen_recall_at_1"] is None


def test_nil_at_a_threshold():
    metrics = link_metrics(MENTIONS, KB, nil_threshold=0.5)
    # Top scores .9 .8 .4 -inf | .3 .7: under it are C|Z, A without candidates, and the NIL at .3.
    assert metrics["nil_precision"] == 1 / 3
    assert metrics["nil_recall"] == 1 / 2
    assert metrics["nil_f1"] == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert metrics["all_recall_at_1"] == 2 / 6  # A, and the NIL at .3
    assert metrics["all_recall_at_64"] == 3 / 6  # B too; C|Z is under the threshold, so NIL at every k
    assert metrics["nil_threshold"] == 0.5
    assert metrics["recall_at_64"] == 3 / 4  # as without a threshold


def test_a_score_at_the_threshold_links():
    assert link_metrics([ranked(("A",), ("A", 0.5))], KB, nil_threshold=0.5)["all_recall_at_1"] == 1
    assert link_metrics([ranked(("A",), ("A", 0.5))], KB, nil_threshold=0.51)["all_recall_at_1"] == 0


def test_a_mention_without_candidates_is_nil_under_any_threshold():
    metrics = link_metrics([ranked(("NIL",)), ranked(("A",), ("A", -1e30))], KB, nil_threshold=-1e30)
    assert (metrics["nil_precision"], metrics["nil_recall"], metrics["all_recall_at_1"]) == (1, 1, 1)


def test_without_a_threshold_its_measures_are_null():
    metrics = link_metrics(MENTIONS, KB)
    keys = ("nil_precision", "nil_recall", "nil_f1", "all_recall_at_1", "all_recall_at_64", "nil_threshold")
    assert [metrics[key] for key in keys] == [None] * 6


def test_nil_auprc_by_hand():
    # By -(top score): A -inf (no), NIL .3 (yes), C|Z .4 (no), Z .7 (yes), B .8, A .9. AP = (1/2 + 2/4) / 2.
    assert link_metrics(MENTIONS, KB)["nil_auprc"] == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_a_nil_class_that_nobody_predicts():
    metrics = link_metrics(MENTIONS[4:6], KB, nil_threshold=0.0)
    assert (metrics["nil_precision"], metrics["nil_recall"], metrics["nil_f1"]) == (None, 0, 0)


@pytest.mark.parametrize("mentions", [[], [MENTIONS[6]]])
def test_nothing_to_measure_is_null(mentions):
    metrics = link_metrics(mentions, KB, nil_threshold=0.5, train_ids={"A"})
    counts = {"n_mentions": 0, "n_in_kb": 0, "n_nil": 0, "n_unannotated": len(mentions), "nil_threshold": 0.5}
    assert {key: value for key, value in metrics.items() if value is not None} == counts


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_the_result_is_strict_json_with_every_key(threshold):
    metrics = json.loads(json.dumps(link_metrics(MENTIONS, KB, nil_threshold=threshold), allow_nan=False))
    keys = (
        "n_mentions n_in_kb n_nil recall_at_1 recall_at_5 recall_at_16 recall_at_64 mrr seen_recall_at_1 "
        "unseen_recall_at_1 n_ambiguous ambiguous_recall_at_1 all_recall_at_1 all_recall_at_64 "
        "nil_precision nil_recall nil_f1 nil_auprc nil_base_rate nil_threshold n_unannotated"
    )
    assert set(metrics) == set(keys.split())


@pytest.mark.parametrize("decimals", [1, 2, 12])  # one decimal: nearly everything is tied
def test_average_precision_equals_scikit_learn(decimals):
    random = np.random.default_rng(decimals)
    for n in (1, 2, 10, 500):
        positive = random.random(n) < 0.3
        positive[0] = True
        scores = np.round(random.normal(size=n) + positive, decimals)
        assert average_precision(positive, scores) == pytest.approx(average_precision_score(positive, scores))


def test_average_precision_with_infinite_ties_and_without_positives():
    positive = np.array([True, False, True])
    assert average_precision(positive, np.array([np.inf, np.inf, 0.0])) == pytest.approx(1 / 2 * 1 / 2 + 1 / 2 * 2 / 3)
    assert average_precision(~np.ones(3, dtype=bool), np.zeros(3)) is None


def test_ambiguous_forms_are_about_mentions_in_the_kb():
    forms = ["cold", "cold", "MS", "cold", "cold", "cold", "cold"]
    mentions = [mention._replace(form=form) for mention, form in zip(MENTIONS, forms)]
    metrics = link_metrics(mentions, KB, ambiguous_forms={"cold"})
    assert metrics["n_ambiguous"] == 3  # A, B, and the A that nothing was found for; not the two NIL ones
    assert metrics["ambiguous_recall_at_1"] == 1 / 3
    assert link_metrics(mentions, KB, ambiguous_forms=())["ambiguous_recall_at_1"] is None
    without = link_metrics(mentions, KB)
    assert without["n_ambiguous"] is without["ambiguous_recall_at_1"] is None


def test_no_order_of_probabilities_and_scores_together():
    """As a ranker leaves them that ranks some mentions only."""
    probable = [one._replace(confidence=0.7) for one in MENTIONS]
    assert link_metrics(probable, KB)["nil_auprc"] is not None and nil_curve(probable, KB)
    mixed = [*probable[:3], *MENTIONS[3:]]
    assert link_metrics(mixed, KB)["nil_auprc"] is None and nil_curve(mixed, KB) == []
    assert link_metrics([*probable[:3], MENTIONS[3], *probable[4:]], KB)["nil_auprc"] is not None, "it has no candidate"
