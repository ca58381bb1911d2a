"""Theorems 3.1 to 3.3 of Zhang & Stratos (2021), by enumeration: one mention, 6 labels, K = 3, in float64.

J is the loss of a gold label y₁ from `POP` among K labels, the others from h; γ(y) = E[Σ_k 1(y_k = y) π(k | y_1:K)]
with π the softmax over the K. A label that is drawn twice counts twice.
"""

from __future__ import annotations

from itertools import combinations, product

import pytest
import torch

from spacy_pel.training.losses import CrossEntropyLoss

LABELS, K = 6, 3
POP = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04], dtype=torch.float64)
SCORES = torch.tensor([0.3, 1.2, -0.5, 0.9, 0.1, -1.0], dtype=torch.float64)
DRAWS = torch.tensor(list(product(range(LABELS), repeat=K)))
FIRST = torch.arange(K).expand(len(DRAWS), K) == 0


def losses(scores, draws):
    """The loss (n,) of each of n draws (n, K), the first of which is the gold label."""
    first = FIRST[: len(draws)]
    return CrossEntropyLoss()(scores[draws], first, ~first)


def gradient(loss_of):
    scores = SCORES.clone().requires_grad_()
    loss_of(scores).backward()
    return scores.grad


def cross_entropy(scores):
    return (POP * (scores.logsumexp(0) - scores)).sum()


def draw_probabilities(h):
    return POP[DRAWS[:, 0]] * h[DRAWS[:, 1:]].prod(1)


@pytest.mark.parametrize("h", [torch.full((LABELS,), 1 / LABELS, dtype=torch.float64), (3 * SCORES).softmax(0)])
def test_theorem_3_1_the_bias_is_p_minus_gamma(h):
    probabilities = draw_probabilities(h)
    assert probabilities.sum() == pytest.approx(1)
    gamma = torch.zeros(LABELS, dtype=torch.float64)
    for draw, pi, probability in zip(DRAWS, SCORES[DRAWS].softmax(1), probabilities, strict=True):
        for label, share in zip(draw.tolist(), pi, strict=True):
            gamma[label] += probability * share
    bias = gradient(cross_entropy) - gradient(lambda s: (probabilities * losses(s, DRAWS)).sum())
    torch.testing.assert_close(bias, SCORES.softmax(0) - gamma)
    assert bias.norm() > 0.05


@pytest.mark.parametrize("corrected", [True, False])
def test_theorem_3_2_none_where_the_model_is_right_and_all_labels_are_drawn_from_it(corrected):
    """With the scores of NCE, s - log q, whose π is 1 / K; the softmax of bare scores prefers what is drawn often."""
    scores = POP.log().requires_grad_()
    log_q = POP.log() if corrected else torch.zeros_like(POP)
    (draw_probabilities(POP) * losses(scores - log_q, DRAWS)).sum().backward()
    exact = POP.log().requires_grad_()
    cross_entropy(exact).backward()
    torch.testing.assert_close(exact.grad, torch.zeros_like(POP))
    assert torch.allclose(scores.grad, exact.grad) is corrected


def test_theorem_3_3_the_worst_negatives_are_the_highest_wrong_labels():
    """The expected loss is linear in h, so that its maximum is at a point."""
    for gold in range(LABELS):
        wrong = [label for label in range(LABELS) if label != gold]
        sets = list(combinations(wrong, K - 1))
        worst = sets[losses(SCORES, torch.tensor([(gold, *own) for own in sets])).argmax()]
        assert set(worst) == set(sorted(wrong, key=SCORES.tolist().__getitem__)[-(K - 1) :])
