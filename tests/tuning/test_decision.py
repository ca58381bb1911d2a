"""What decides on NIL from all that a search says, against scikit-learn and on mentions made for it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import spacy
from lookup_linker import LEAD, documents, sayer

from spacy_pel.errors import PelError
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.mentions.gold import GOLD_GROUP, gold_of
from spacy_pel.mentions.links import Link
from spacy_pel.pipeline.tuning import tune_nil
from spacy_pel.search.evidence import EVIDENCE
from spacy_pel.search.search import Found
from spacy_pel.tuning.calibration import fit
from spacy_pel.tuning.decision import EDGE, FAR, RIDGE, Decision, Logistic, fit_decision, fit_logistic, strongest
from spacy_pel.tuning.nil import tune_threshold
from spacy_pel.tuning.tuned import Tuned, decide, evidence_for

E = len(EVIDENCE)
SPAN = spacy.blank("en")("Her MS began")[1:3]


def drawn(n=400, seed=0):
    """Evidence (n, E) of which two columns count and one is the same for all, and what it is evidence of."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(3, 2, (n, E))
    evidence[:, 5] = 7
    odds = 1.5 * (evidence[:, 0] - 3) - 2 * (evidence[:, LEAD] - 3) + 0.5
    return evidence, rng.random(n) < 1 / (1 + np.exp(-odds))


def held(evidence):
    """In standard deviations from the mean, within what all but 2 % on either side are."""
    z = (evidence - evidence.mean(axis=0)) / np.where(evidence.std(axis=0) > 0, evidence.std(axis=0), 1)
    return z.clip(*np.quantile(z, (EDGE, 1 - EDGE), axis=0))


def test_it_is_a_logistic_regression():
    linear_model = pytest.importorskip("sklearn.linear_model")
    evidence, positive = drawn()
    fitted = fit_logistic(evidence, positive)
    varies = evidence.std(axis=0) > 0
    z = held(evidence)[:, varies]
    products = np.column_stack([z[:, i] * z[:, j] for i in range(E - 1) for j in range(i, E - 1)])
    inputs = np.column_stack([z, products / products.std(axis=0)])
    n, n_right = len(positive), positive.sum()
    share = np.where(positive, (n_right + 1) / (n_right + 2), 1 / (n - n_right + 2))  # Platt's targets, as two classes
    reference = linear_model.LogisticRegression(C=1 / RIDGE, tol=1e-10, max_iter=10_000).fit(
        np.vstack([inputs, inputs]), np.repeat([1, 0], n), sample_weight=np.concatenate([share, 1 - share])
    )
    odds = reference.decision_function(inputs)
    calibration = fit(odds, positive)
    assert fitted.weights[varies] == pytest.approx(calibration.slope * reference.coef_[0][: E - 1], abs=1e-3)
    expected = np.array([calibration.probability(one) for one in odds.tolist()])
    assert fitted.probability(evidence) == pytest.approx(expected, abs=1e-3)


def test_what_parts_all_stays_finite_and_what_is_constant_says_nothing():
    evidence, _ = drawn()
    fitted = fit_logistic(evidence, evidence[:, 0] > 3)
    assert np.isfinite(fitted.weights).all() and fitted.weights[5] == 0
    alone = fit_logistic(evidence, np.ones(len(evidence), dtype=bool))
    assert alone.probability(evidence).min() > 0.99 and np.abs(alone.weights).max() < 1e-3


def test_what_few_mentions_had_counts_as_what_the_others_had():
    evidence, positive = drawn()
    digits, n = EVIDENCE.index("digits"), len(evidence)
    evidence[:, digits] = 0
    evidence[: n // 100, digits] = np.linspace(0.2, 0.9, n // 100)  # of which the KB happens to have all
    positive[: n // 100] = True
    fitted = fit_logistic(evidence, positive)
    assert fitted.least == pytest.approx(held(evidence).min(axis=0))
    assert fitted.most == pytest.approx(held(evidence).max(axis=0))
    mention, number = evidence[-5:].copy(), evidence[-5:].copy()
    number[:, digits] = 1
    assert fitted.probability(number) == pytest.approx(fitted.probability(mention))
    mention[:, 0], number[:, 0] = np.quantile(evidence[:, 0], 1 - EDGE), 1e6
    assert fitted.probability(number) == pytest.approx(fitted.probability(mention))
    stored = fitted.to_dict()
    del stored["least"], stored["most"]  # as older versions wrote it
    older = Logistic.from_dict(stored)
    assert (older.most == FAR).all() and (older.least == -FAR).all()


def test_what_says_most():
    evidence, positive = drawn(4000)
    fitted = fit_logistic(evidence, positive)
    mention = evidence.mean(axis=0)
    mention[LEAD] += 3
    (name, share), (_, next_share) = strongest(fitted, mention, 2)
    assert name == "lead over the next" and share == pytest.approx(-6, rel=0.2) and abs(next_share) < 1e-6


def test_it_is_read_back_as_written():
    evidence, positive = drawn()
    decision = fit_decision(evidence, positive, ~positive)
    tuned = Tuned(nil_threshold=0.4, decision=decision)
    stored = json.loads(json.dumps(tuned.to_dict()))
    again = Tuned.from_dict(stored).decision
    for one, other in zip(decision, again, strict=True):
        assert (one.probability(evidence) == other.probability(evidence)).all()
    assert tuned.without_nil() == Tuned()
    stored["decision"]["right"]["columns"].remove("capitals")
    with pytest.warns(UserWarning, match="which another version tuned: run `spacy pel tune-nil`"):
        assert Tuned.from_dict(stored) == Tuned()
    assert set(Decision.from_dict(decision.to_dict()).to_dict()) == {"in_kb", "right"}


def test_the_probability_decides_and_a_number_wins():
    evidence, positive = drawn()
    tuned = Tuned(nil_threshold=0.5, decision=fit_decision(evidence, ~positive, positive))
    for said in evidence[:50]:
        found = Found(["A", "B"], np.array([0.3, 0.2]), {}, SPAN, said)
        in_kb, right = (one.probability(said) for one in tuned.decision)
        (link,) = decide([found], tuned, 0.5, by_score=False)
        assert link == Link("A" if in_kb >= 0.5 else "NIL", found.ranked, right, in_kb, "MS began")
        assert [name for name, _ in evidence_for(found, link, tuned)][:1]
        assert decide([found], tuned, 0.25, by_score=True) == [Link("A", found.ranked, right, None, "MS began")]
        assert decide([found], tuned, 0.35, by_score=True)[0].kb_id == "NIL"
    nothing = Found([], np.empty(0), {}, SPAN)
    assert decide([nothing, found], tuned, 0.5, by_score=False) == [Link("NIL", []), link]
    assert decide([], tuned, 0.5, by_score=False) == []


def test_tuning_takes_what_is_better_elsewhere():
    docs = documents(24)
    linker = sayer(docs)
    found = tune_nil(linker, docs)
    assert found.decision is linker.tuned.decision is not None
    assert found.elsewhere.mean > 0.85 > found.by_score.mean + 0.2
    assert linker.tuned.nil_threshold == found.nil.threshold and found.nil.f1 > 0.85 and found.link_ece < 0.1
    others = documents(40, 11)[24:]
    links = linker.links([one for doc in others for one in sayer(others).find(doc.spans[GOLD_GROUP], 1)])
    assert {link.probability is None for link in links} == {True, False}  # some have no candidate


def test_tuning_leaves_it_where_the_score_is_as_good():
    docs = documents(24)
    linker = sayer(docs)
    linker.found = {word: [("A", 0.1 if word.startswith("nil") else 0.9)] for word in linker.found}
    found = tune_nil(linker, docs)
    assert found.decision is None is linker.tuned.decision
    assert found.elsewhere == found.by_score and found.nil.f1 == 1 and found.calibration == linker.tuned.calibration


@pytest.mark.parametrize(
    ("lowest", "reached", "all_decide"), [("word0x1", "precision=0.8", True), ("nil0x0", "precision=1", False)]
)
def test_a_target_is_for_what_decides_or_alone_reaches_it(lowest, reached, all_decide):
    """The lead takes some words for NIL, and the score can be right of the lowest alone."""
    docs = documents(24)
    linker = sayer(docs)
    linker.found = {token.text: linker.found.get(token.text, [("A", 0.5)]) for doc in docs for token in doc}
    linker.found[lowest] = [("A", -1.0)]
    linker._said = lambda span: np.eye(E)[LEAD] * (span.text.startswith("word") and not span.text.endswith("x1"))
    assert tune_nil(linker, docs).decision is not None
    found = tune_nil(linker, docs, target=reached)
    assert (found.decision is not None) == all_decide and found.nil.precision >= float(reached.split("=")[1])
    assert found.decision is linker.tuned.decision and found.nil.threshold == linker.tuned.nil_threshold
    linker.found["word0x1"] = [("A", -2.0)]
    with pytest.raises(PelError, match="no threshold gives the NIL class a precision of 1; the nearest is"):
        tune_nil(linker, docs, target="precision=1")
    assert linker.tuned.nil_threshold == found.nil.threshold


def test_the_score_can_be_asked_for():
    docs = documents(24)
    linker = sayer(docs)
    found = tune_nil(linker, docs, by_score=True)
    assert found.decision is None is linker.tuned.decision and found.elsewhere == found.by_score
    ranked = rank_mentions(linker, gold_of(docs, linker.kb), 1)
    assert found.nil.threshold == tune_threshold(ranked, linker.kb).threshold


def test_few_mentions_leave_it_to_the_score():
    docs = documents(4)
    found = tune_nil(sayer(docs), docs)
    assert found.too_few is not None and found.decision is None
