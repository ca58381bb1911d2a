"""The fit of the lexical weights: on mentions drawn from a model whose weights are known."""

from __future__ import annotations

import numpy as np
import pytest
from spacy.tokens import Span
from spacy.vocab import Vocab

from spacy_pel.errors import PelError
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.mentions.gold import GoldMention
from spacy_pel.search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from spacy_pel.search.search import Found
from spacy_pel.search.weights import DEFAULT, NO_NAMES, NameWeights, check_lexical
from spacy_pel.tuning.name_weights import GoldFound, fit_weights

SCALE, OUTSIDE, TRUE = 20.0, 8.0, np.array([0.3, 0.15])


def drawn(n, seed=0, n_candidates=12):
    from spacy.tokens import Doc

    rng = np.random.default_rng(seed)
    doc = Doc(Vocab(), words=["x"])
    found = []
    for _ in range(n):
        similarity = rng.uniform(-0.2, 0.6, n_candidates).astype(np.float32)
        lexical = np.column_stack([rng.uniform(0, 1, n_candidates), rng.random(n_candidates) < 0.1]).astype(np.float32)
        logits = np.append(SCALE * (similarity + lexical @ TRUE), OUTSIDE)
        chosen = rng.choice(n_candidates + 1, p=np.exp(logits) / np.exp(logits).sum())
        ids = [f"E{i}" for i in range(n_candidates)]
        gold = ("NIL",) if chosen == n_candidates else (f"E{chosen}",)
        parts = {SIMILARITY: similarity, NGRAM: lexical[:, 0], EXACT: lexical[:, 1]}
        span = Span(doc, 0, 1)
        found.append(GoldFound(GoldMention(span, gold), Found(ids, similarity, parts, span)))
    return found


def test_the_weights_that_made_the_data_are_found():
    assert fit_weights(drawn(4000))[:2] == pytest.approx(TRUE, abs=0.02)


def test_a_constant_that_is_added_to_every_similarity_changes_no_weight():
    found = drawn(400)
    lifted = [
        one._replace(
            found=one.found._replace(parts=dict(one.found.parts) | {SIMILARITY: one.found.parts[SIMILARITY] + 300})
        )
        for one in found
    ]
    assert fit_weights(lifted)[:2] == pytest.approx(fit_weights(found)[:2], rel=0.01)


def test_they_rank_better_than_similarity_alone():
    ids = {f"E{i}" for i in range(12)}
    before, after = (
        link_metrics([one.ranked(own) for one in drawn(500, seed=1)], ids) for own in (NO_NAMES, NameWeights(*TRUE))
    )
    assert after["recall_at_1"] > before["recall_at_1"] + 0.1 and after["nil_auprc"] > before["nil_auprc"]


def test_names_that_say_nothing_weigh_nothing():
    rng = np.random.default_rng(2)
    mentions = []
    for mention, found in drawn(2000):
        noise = {name: rng.random(12).astype(np.float32) for name in (NGRAM, EXACT)}
        gold = (found.ids[found.parts[SIMILARITY].argmax()],)
        mentions.append(GoldFound(mention._replace(ids=gold), found._replace(parts=dict(found.parts) | noise)))
    assert max(fit_weights(mentions)[:2]) < 0.01


def test_without_a_right_candidate():
    wrong = [one._replace(mention=one.mention._replace(ids=("other",))) for one in drawn(3)]
    with pytest.raises(PelError, match="nothing to fit"):
        fit_weights(wrong)


@pytest.mark.parametrize(
    ("fitted", "expected"),
    [((0.5, 0.0), (0.5, 0.0)), ((2474264.8, 0.0), (1e6, 0.0)), ((1e9, 5e8), (1e6, 5e5)), ((0.0, 1e300), (0.0, 1e6))],
)
def test_fitted_weights_can_be_set_by_hand(fitted, expected):
    bounded = NameWeights(*fitted).bounded()
    assert bounded[:2] == pytest.approx(expected)
    check_lexical(bounded.as_setting())


def test_the_weight_of_the_vectors_of_names_is_fitted_too():
    rng, mentions = np.random.default_rng(3), []
    for one, found in drawn(4000):
        similarity = found.parts[SIMILARITY]
        names = rng.uniform(-0.2, 0.6, len(similarity)).astype(np.float32)
        parts = dict(found.parts) | {SIMILARITY: similarity - 2 * names, NAMES: names}  # 1 and 2 of them are as before
        mentions.append(GoldFound(one, found._replace(parts=parts)))
    fitted = fit_weights(mentions)
    assert fitted == pytest.approx((*TRUE, 2.0), abs=0.05)
    assert fit_weights(mentions, [NAMES])[:2] == (0, 0) and fit_weights(mentions, [NAMES]).names > 1
    check_lexical(fitted.as_setting())
    score = NameWeights(0.5, 0.25, 1.25).score({part: np.array([0.8]) for part in (SIMILARITY, NAMES)})
    assert score == pytest.approx([0.8])  # what there is not does not count


def parted(n):
    """Mentions whose entity has the one exact match, the least similarity and the names least alike."""
    mentions = []
    for one, found in drawn(n):
        similarity = found.parts[SIMILARITY]
        worst = np.arange(len(similarity)) == similarity.argmin()
        parts = {SIMILARITY: similarity, NGRAM: found.parts[NGRAM] * ~worst, EXACT: worst.astype(np.float32)}
        gold = one._replace(ids=(found.ids[similarity.argmin()],))
        mentions.append(GoldFound(gold, found._replace(parts=parts)))
    return mentions


@pytest.mark.parametrize("seed", range(3))
def test_twelve_mentions_leave_the_weights_near_the_defaults(seed):
    fitted = fit_weights(drawn(12, seed))
    assert 0.25 < fitted.ngram / DEFAULT.ngram < 4 and 0.25 < fitted.exact / DEFAULT.exact < 4


def test_twelve_mentions_that_an_exact_match_alone_decides_give_it_no_weight_of_thousands():
    fitted = fit_weights(parted(12))
    assert DEFAULT.exact < fitted.exact < 2 and 0.4 < fitted.ngram < DEFAULT.ngram


def test_the_more_mentions_the_nearer_to_what_they_say():
    away = [abs(fit_weights(drawn(n)).ngram - TRUE[0]) for n in (6, 4000)]
    assert away[0] > 0.1 > 0.02 > away[1]


def test_the_weights_that_stand_without_mentions_are_those_given():
    """Of candidates that are all alike, nothing can be said."""
    mentions = []
    for one, found in drawn(50):
        same = {part: np.full(12, 0.5, dtype=np.float32) for part in (SIMILARITY, NGRAM, EXACT)}
        mentions.append(GoldFound(one._replace(ids=("E0",)), found._replace(parts=same)))
    prior = NameWeights(0.125, 7.0)
    assert fit_weights(mentions, prior=prior)[:2] == pytest.approx(prior[:2], rel=0.01)
