"""Losses against their formulas typed in again with plain exponentials, and gradients against eq. 4."""

from __future__ import annotations

import math

import pytest
import torch

from spacy_pel.errors import PelError
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.losses import CrossEntropyLoss, NCELoss, ProxyLoss, score_gradient
from spacy_pel.training.negatives import RandomNegatives
from spacy_pel.training.objective import Objective

SCORES = [[0.9, 0.1, -0.3, 0.4], [0.2, 0.25, 0.5, -1.0]]
POSITIVES = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
NEGATIVES = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)


def scores(dtype=torch.float64):
    return torch.tensor(SCORES, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(("alpha", "margin"), [(32.0, 0.0), (32.0, 0.1), (4.0, 0.05), (1.0, -0.2)])
def test_proxy_loss_is_equation_3_and_its_gradient_equation_4(alpha, margin):
    s = scores()
    loss = ProxyLoss(alpha, margin, 0.0)(s, POSITIVES, NEGATIVES)
    loss.sum().backward()
    for i, row in enumerate(SCORES):
        own = next(x for x, used in zip(row, POSITIVES[i]) if used)
        others = [x for x, used in zip(row, NEGATIVES[i]) if used]
        total = sum(math.exp(alpha * (x + margin)) for x in others)
        expected = math.log(1 + math.exp(-alpha * (own - margin))) + math.log(1 + total)
        assert loss[i].item() == pytest.approx(expected, rel=1e-9)
        for j, x in enumerate(row):
            if POSITIVES[i, j]:
                e = math.exp(-alpha * (x - margin))
                gradient = -alpha * e / (1 + e)
            elif NEGATIVES[i, j]:
                gradient = alpha * math.exp(alpha * (x + margin)) / (1 + total)
            else:
                gradient = 0.0
            assert s.grad[i, j].item() == pytest.approx(gradient, rel=1e-9, abs=1e-15)


def test_cross_entropy_is_the_softmax_over_gold_and_negatives():
    s = scores()
    loss = CrossEntropyLoss()(s, POSITIVES, NEGATIVES)
    loss.sum().backward()
    for i, row in enumerate(SCORES):
        used = [j for j in range(4) if POSITIVES[i, j] or NEGATIVES[i, j]]
        total = sum(math.exp(row[j]) for j in used)
        gold = next(j for j in used if POSITIVES[i, j])
        assert loss[i].item() == pytest.approx(-math.log(math.exp(row[gold]) / total), rel=1e-9)
        for j in range(4):
            p = math.exp(row[j]) / total if j in used else 0.0
            assert s.grad[i, j].item() == pytest.approx(p - (j == gold), rel=1e-9, abs=1e-12)


def test_an_origin_is_taken_from_every_score_and_a_scale_multiplies_it():
    s = scores()
    torch.testing.assert_close(
        ProxyLoss(8.0, 0.1, origin=0.3)(s, POSITIVES, NEGATIVES),
        ProxyLoss(8.0, 0.1, origin=0.0)(s - 0.3, POSITIVES, NEGATIVES),
    )
    scaled = CrossEntropyLoss(scale=32.0, similarity="cosine")
    torch.testing.assert_close(scaled(s, POSITIVES, NEGATIVES), CrossEntropyLoss()(32 * s, POSITIVES, NEGATIVES))
    assert (scaled.logit_scale, scaled.similarity) == (32.0, "cosine")
    assert (CrossEntropyLoss().logit_scale, CrossEntropyLoss().similarity) == (1.0, "dot")


def test_an_origin_is_fitted_where_the_loss_is_least():
    generator = torch.Generator().manual_seed(0)
    s = 0.4 + 0.1 * torch.randn(64, 9, generator=generator, dtype=torch.float64)
    positives = torch.zeros(64, 9, dtype=torch.bool)
    positives[:, 0] = True
    s[:, 0] += 0.3
    fitted = ProxyLoss(32.0, 0.02).fitted(s, positives, ~positives)
    assert (fitted.alpha, fitted.margin) == (32.0, 0.02)
    near = {i: ProxyLoss(32.0, 0.02, fitted.origin + i / 100)(s, positives, ~positives).sum() for i in range(-30, 31)}
    assert min(near, key=near.__getitem__) == 0 and 0.4 < fitted.origin < 0.7
    with pytest.raises(PelError, match="origin = 'auto'; it is fitted by a training"):
        ProxyLoss(origin="auto")(s, positives, ~positives)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ProxyLoss(origin=2), "origin = 2"),
        (lambda: ProxyLoss(origin="fit"), "origin = 'fit'; it must be .*, or \"auto\""),
        (lambda: CrossEntropyLoss(scale=0), "scale = 0"),
        (lambda: CrossEntropyLoss(similarity="l2"), "similarity is 'l2'; choose one of dot, cosine"),
        (lambda: FGSM(layer="last"), "layer is 'last'; choose one of sum, normalised"),
        (lambda: FGSM(tokens="mention"), "tokens is 'mention'; choose one of entity, all"),
        (lambda: Objective(ProxyLoss(), FGSM(tokens="all"), RandomNegatives(3), "shared"), '"all" is of a pel_ranker'),
    ],
)
def test_what_cannot_be_is_refused(make, error):
    with pytest.raises(PelError, match=error):
        make()


@pytest.mark.parametrize("loss", [ProxyLoss(origin=0.0), CrossEntropyLoss()])
def test_without_negatives_the_positive_term_is_left_and_gradients_are_finite(loss):
    s = scores(torch.float32)
    value = loss(s, POSITIVES, torch.zeros_like(NEGATIVES))
    value.sum().backward()
    assert torch.isfinite(value).all() and torch.isfinite(s.grad).all()
    assert (s.grad[~POSITIVES] == 0).all()


def test_without_a_positive_the_proxy_loss_keeps_its_negative_term():
    s = scores()
    value = ProxyLoss(2.0, 0.0, 0.0)(s, torch.zeros_like(POSITIVES), NEGATIVES)
    assert value[0].item() == pytest.approx(math.log(1 + math.exp(0.2) + math.exp(-0.6)))


@pytest.mark.parametrize("loss", [ProxyLoss(origin=0.0), CrossEntropyLoss()])
def test_large_scores_stay_finite(loss):
    s = torch.tensor([[80.0, -90.0, 70.0]], requires_grad=True)
    positives = torch.tensor([[True, False, False]])
    value = loss(s, positives, ~positives)
    value.sum().backward()
    assert torch.isfinite(value).all() and torch.isfinite(s.grad).all()


def test_score_gradient_keeps_the_sign_where_float32_has_lost_it():
    s = torch.tensor([[90.0, -90.0, 3.0]], requires_grad=True)
    positives = torch.tensor([[True, False, False]])
    negatives = torch.tensor([[False, True, False]])
    loss = CrossEntropyLoss()(s, positives, negatives).sum()
    assert torch.autograd.grad(loss, s, retain_graph=True)[0].abs().sum() == 0
    gradient = score_gradient(loss, s, positives, negatives)
    assert gradient.sign().tolist() == [[-1, 1, 0]]


def test_score_gradient_is_the_gradient_elsewhere():
    s = scores()
    loss = ProxyLoss(4.0, 0.0, 0.0)(s, POSITIVES, NEGATIVES).sum()
    expected = torch.autograd.grad(loss, s, retain_graph=True)[0]
    torch.testing.assert_close(score_gradient(loss, s, POSITIVES, NEGATIVES), expected)


def test_nce_takes_the_probability_of_every_draw_from_its_score():
    s = scores()
    log_q = torch.tensor([[9.0, -1.0, -2.0, 9.0], [-3.0, -0.5, 9.0, -1.5]], dtype=torch.float64)
    loss = NCELoss()(s, POSITIVES, NEGATIVES, log_q)
    loss.sum().backward()
    for i, row in enumerate(SCORES):
        drawn = [j for j in range(4) if NEGATIVES[i, j]]
        gold = next(j for j in range(4) if POSITIVES[i, j])
        weights = {j: math.exp(row[j]) / (len(drawn) * math.exp(log_q[i, j])) for j in drawn}
        total = math.exp(row[gold]) + sum(weights.values())
        assert loss[i].item() == pytest.approx(-math.log(math.exp(row[gold]) / total), rel=1e-9)
        for j in range(4):
            p = (math.exp(row[gold]) if j == gold else weights.get(j, 0.0)) / total
            assert s.grad[i, j].item() == pytest.approx(p - (j == gold), rel=1e-9, abs=1e-12)


def test_nce_over_uniform_draws_estimates_the_softmax_over_the_whole_kb():
    """Which is what the correction is for: plain cross-entropy over the draws is far below it."""
    generator = torch.Generator().manual_seed(0)
    kb = torch.randn(1001, generator=generator, dtype=torch.float64)
    exact = -torch.log_softmax(kb, 0)[0]
    drawn = kb[1 + torch.randint(1000, (400, 200), generator=generator)]
    s = torch.cat([kb[:1].expand(400, 1), drawn], dim=1)
    positives = torch.zeros_like(s, dtype=torch.bool)
    positives[:, 0] = True
    log_q = torch.full_like(s, -math.log(1000))
    assert NCELoss()(s, positives, ~positives, log_q).mean().item() == pytest.approx(exact.item(), abs=0.02)
    assert CrossEntropyLoss()(s, positives, ~positives).mean() < exact - 1


def test_nce_without_negatives_or_without_a_positive_is_0():
    s, none, log_q = scores(), torch.zeros_like(POSITIVES), torch.zeros(2, 4)
    value = NCELoss()(s, POSITIVES, none, log_q) + NCELoss()(s, none, NEGATIVES, log_q)
    value.sum().backward()
    assert (value == 0).all() and (s.grad == 0).all()
