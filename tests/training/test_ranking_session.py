"""The training of a cross-encoder: its loss, FGSM on the entity's part, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
import torch
from tiny import ENTITIES, make_docs, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.cross_encoder import (
    behind_separator,
    make_cross_encoder,
    pair_tower,
    rows_of_pairs,
    score_pairs,
    set_encoder,
)
from spacy_pel.models.encoder import LAYERS, token_batches
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.training.adversarial import FGSM, TOKENS
from spacy_pel.training.optimizer import AdamW
from spacy_pel.training.ranking import Choice, RankingSession, loss_and_gradient, weighty

NLP = spacy.blank("en")
BY_ID = {entity.id: entity for entity in ENTITIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(params=["pairs", "mentions"])
def model(folder, request):
    torch.manual_seed(0)
    made = make_cross_encoder(mention_length=20, entity_length=16, precision="fp32", rows=request.param)
    set_encoder(made, HFEncoder(str(folder), dropout=0.0)())
    return made


@pytest.fixture(scope="module")
def choices():
    made = []
    for i, ent in enumerate(ent for doc in make_docs(NLP) for ent in doc.ents):
        others = [entity for entity in ENTITIES if entity.id != ent.kb_id_][: 3 + i % 3]
        candidates = [*others[: i % 3], BY_ID[ent.kb_id_], *others[i % 3 :]]
        right = [entity.id == ent.kb_id_ for entity in candidates]
        made.append(Choice(ent, candidates, right, [not own for own in right]))
    return made


def test_the_loss_is_cross_entropy_over_the_candidates(choices):
    scores = np.random.default_rng(0).normal(size=(sum(len(one.candidates) for one in choices), 1)).astype("float32")
    value, gradient = loss_and_gradient(scores, choices)
    expected, start, flat = 0.0, 0, torch.tensor(scores[:, 0], requires_grad=True)
    for one in choices:
        own = flat[start : start + len(one.candidates)]
        expected = expected + torch.nn.functional.cross_entropy(own[None], torch.tensor([one.right.index(True)]))
        start += len(one.candidates)
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient[:, 0], flat.grad.numpy(), atol=1e-6)


def test_the_latest_update_is_told_as_that_of_a_linker_is(model, choices):
    session = RankingSession(model, None)
    assert session.latest is None
    losses = [session.accumulate(choices[:2]), session.accumulate(choices[2:5])]
    session.finish_gradients(None)
    assert session.latest.loss == pytest.approx((2 * losses[0] + 3 * losses[1]) / 5)
    norm = torch.linalg.vector_norm(torch.cat([p.grad.ravel() for p in pair_tower(model).parameters()]))
    assert session.latest.gradient_norm == pytest.approx(norm.item(), rel=1e-4)
    session.finish_gradients(None)
    assert session.latest is None


def test_a_candidate_that_is_neither_takes_no_part(choices):
    one = choices[0]
    neither = one.right.index(False)
    wrong = [flag and i != neither for i, flag in enumerate(one.wrong)]
    scores = np.linspace(-1, 1, len(one.candidates), dtype="float32")[:, None]
    value, gradient = loss_and_gradient(scores, [one._replace(wrong=wrong)])
    assert gradient[neither] == 0 and value < loss_and_gradient(scores, [one])[0]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("tokens", TOKENS)
def test_fgsm_steps_on_the_entity_alone_or_on_the_whole_row_and_hurts(model, choices, tokens, layer):
    session = RankingSession(model, FGSM(epsilon=0.02, tokens=tokens, layer=layer))
    rows = rows_of_pairs(model, [one.span for one in choices], [one.candidates for one in choices])
    scores, backprop = model.begin_update(rows)
    value, d_scores = loss_and_gradient(scores, choices)
    steps = session._steps(rows, backprop(d_scores))
    for step, (_, batch) in zip(steps, token_batches(model, rows), strict=True):
        stepped = batch.mask
        if tokens == "entity":
            stepped = stepped & behind_separator(batch.ids, pair_tower(model).separator)
        assert (step[~stepped] == 0).all()
        np.testing.assert_allclose(np.abs(step[stepped]), 0.02, rtol=1e-5)
    adversarial, _ = model.begin_update(rows.with_steps(steps))
    right = np.concatenate([one.right for one in choices])
    assert (adversarial[right] < scores[right]).all() and (adversarial[~right] > scores[~right]).all()
    assert loss_and_gradient(adversarial, choices)[0] > value


@pytest.mark.parametrize("layer", LAYERS)
def test_what_fgsm_adds_counts_by_its_weight(model, choices, layer):
    """L(m, P) + λ L(m, P_adv) (eq. 8), and its gradient."""
    module, losses, gradients = pair_tower(model), [], []
    for weight in (0.5, 1.0, 2.0):
        session = RankingSession(model, FGSM(epsilon=0.02, weight=weight, layer=layer))
        losses.append(session.accumulate(choices) * len(choices))
        gradients.append(module.transformer.encoder.layer[0].output.dense.bias.grad.clone())
    rows = rows_of_pairs(model, [one.span for one in choices], [one.candidates for one in choices])
    scores, backprop = model.begin_update(rows)
    clean, d_scores = loss_and_gradient(scores, choices)
    adversarial, _ = model.begin_update(rows.with_steps(session._steps(rows, backprop(d_scores))))
    stepped, _ = loss_and_gradient(adversarial, choices)
    assert losses == pytest.approx([clean + weight * stepped for weight in (0.5, 1.0, 2.0)], rel=1e-5)
    torch.testing.assert_close(gradients[2] - gradients[1], 2 * (gradients[1] - gradients[0]), atol=1e-5, rtol=1e-3)
    assert (gradients[1] - gradients[0]).abs().max() > 1e-4


def test_gradients_are_those_of_the_mean_loss(model, choices, monkeypatch):
    """Two batches and one give the same, and that is the derivative of the mean."""
    monkeypatch.setattr("spacy_pel.training.ranking.NEGLIGIBLE", 0.0)
    module, session = pair_tower(model), RankingSession(model, None)
    session.accumulate(choices[:5])
    session.accumulate(choices[5:])
    assert session.finish_gradients(None)
    twice = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    module.zero_grad()
    mean = session.accumulate(choices)
    session.finish_gradients(None)
    for one, other in zip(twice, (p.grad for p in module.parameters() if p.grad is not None), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)
    bias = module.transformer.encoder.layer[0].output.dense.bias
    gradient = bias.grad[3].item()
    values = []
    for step in (1e-2, -1e-2):
        with torch.no_grad():
            bias[3] += step
        module.weights_changed()
        scores = score_pairs(model, [one.span for one in choices], [one.candidates for one in choices])
        values.append(loss_and_gradient(scores[:, None], choices)[0] / len(choices))
        with torch.no_grad():
            bias[3] -= step
    assert (values[0] - values[1]) / 2e-2 == pytest.approx(gradient, rel=0.05, abs=1e-4)
    assert mean == pytest.approx(sum(values) / 2, rel=1e-2)


@pytest.mark.parametrize("adversarial", [None, FGSM(epsilon=0.001)], ids=["clean", "fgsm"])
def test_it_learns(model, choices, adversarial):
    session, optimizer = RankingSession(model, adversarial), AdamW(1e-3)
    first = session.accumulate(choices)
    for _ in range(220):
        session.finish_gradients(1.0)
        model.finish_update(optimizer)
        pair_tower(model).weights_changed()
        last = session.accumulate(choices)
    assert last < 0.3 * first
    scores = iter(score_pairs(model, [one.span for one in choices], [one.candidates for one in choices]))
    best = [int(np.argmax([next(scores) for _ in one.candidates])) for one in choices]
    assert sum(one.right[i] for one, i in zip(choices, best, strict=True)) > 0.8 * len(choices)


def test_what_weighs_in_a_gradient():
    gradient = np.array([0.5, -0.004, 0.0, 0.3, -0.196, np.nan], dtype="float32")
    np.testing.assert_array_equal(weighty(gradient[:5], 0.01), [0, 3, 4])
    np.testing.assert_array_equal(weighty(gradient[:5], 0.0), [0, 1, 3, 4])
    np.testing.assert_array_equal(weighty(gradient[:5], 0.2), [0, 3])
    assert len(weighty(np.zeros(3), 0.01)) == 1 and len(weighty(np.zeros(0), 0.01)) == 0
    assert len(weighty(gradient, 0.01)) == 6  # a training that has diverged is told by its gradients


def test_a_batch_that_is_right_already(folder, choices):
    """No pair has a gradient to speak of, and neither has the update."""
    model = make_cross_encoder(mention_length=20, entity_length=16, precision="fp32")
    set_encoder(model, HFEncoder(str(folder), dropout=0.0)())
    session = RankingSession(model, None)
    one = choices[0]
    right = one.right.index(True)
    session.accumulate([Choice(one.span, [one.candidates[right]], [True], [False])])
    assert session.finish_gradients(1.0)
    assert all(p.grad.abs().max() < 1e-6 for p in pair_tower(model).parameters() if p.grad is not None)


def test_pairs_that_the_loss_leaves_as_they_are_are_read_once(folder, choices, monkeypatch):
    """When most is learnt, few pairs are read for gradients, which are those of all pairs but for hundredths."""
    torch.manual_seed(0)
    model = make_cross_encoder(mention_length=20, entity_length=16, precision="fp32")
    set_encoder(model, HFEncoder(str(folder), dropout=0.0)())
    session, optimizer = RankingSession(model, None), AdamW(1e-3)
    for _ in range(100):
        session.accumulate(choices)
        session.finish_gradients(1.0)
        model.finish_update(optimizer)
        pair_tower(model).weights_changed()
    with torch.no_grad():
        pair_tower(model).head.weight.mul_(4)  # surer than a training is so soon
    read = []
    forward = model._func

    def noted(own, rows, is_train):
        read.append((len(rows), is_train))
        return forward(own, rows, is_train)

    monkeypatch.setattr(model, "_func", noted)

    def gradients():
        value = session.accumulate(choices)
        found = torch.cat([p.grad.flatten() for p in pair_tower(model).parameters() if p.grad is not None])
        session.drop_gradients()
        return value, found

    value, some = gradients()
    n_pairs = sum(len(one.candidates) for one in choices)
    assert read[0] == (n_pairs, False) and read[1][1] and 0 < read[1][0] < 0.7 * n_pairs
    monkeypatch.setattr("spacy_pel.training.ranking.predicts_as_it_learns", lambda _: False)
    expected, all_of_them = gradients()
    assert read[2:] == [(n_pairs, True)]
    assert value == pytest.approx(expected, rel=1e-4)
    assert (some - all_of_them).norm() < 0.05 * all_of_them.norm()


def test_clipping_and_nothing(model, choices):
    session = RankingSession(model, None)
    assert session.accumulate([]) == 0.0 and not session.finish_gradients(1.0)
    with pytest.warns(UserWarning, match="pel_ranker has learnt nothing in its first 50 updates"):
        assert not any(session.finish_gradients(1.0) for _ in range(49))
    session.accumulate(choices)
    session.finish_gradients(0.1)
    gradients = [p.grad for p in pair_tower(model).parameters() if p.grad is not None]
    assert torch.stack([g.norm() for g in gradients]).norm().item() == pytest.approx(0.1, rel=1e-3)
    with torch.no_grad():
        pair_tower(model).head.weight.fill_(float("nan"))
    session.accumulate(choices)
    with pytest.raises(PelError, match="training has diverged"):
        session.finish_gradients(1.0)
    assert not session.finish_gradients(1.0)


def test_a_batch_that_fails_leaves_nothing(model, choices, monkeypatch):
    session = RankingSession(model, FGSM(epsilon=0.001))
    session.accumulate(choices[:2])
    monkeypatch.setattr(session, "_steps", lambda *_: pytest.fail("after the clean backward pass"))
    with pytest.raises(pytest.fail.Exception):
        session.accumulate(choices)
    assert session.n_mentions == 0 and all(p.grad is None for p in pair_tower(model).parameters())
