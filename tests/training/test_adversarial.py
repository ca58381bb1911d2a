"""FGSM in float64 with dropout off, against eq. 6-7 written with `torch.autograd.grad` on each pair's own score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from thinc.api import xp2torch
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import token_batches, tower_module
from spacy_pel.models.scoring.dual import Dual
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.layouts import per_mention, shared
from spacy_pel.training.losses import CrossEntropyLoss, ProxyLoss
from spacy_pel.training.negatives import DrawnNegatives
from spacy_pel.training.objective import backpropagate, loss_and_gradients

GOLD = np.array([0, 3, 4])
CORRECT = [[0], [3], [4, 5]]
NEGATIVES = DrawnNegatives(np.array([[1, 2, 3], [0, 4, 6], [7, 8, 0]]))


@pytest.fixture
def double_model(tmp_path):
    """A bi-encoder in float64; the towers differ, as after training."""
    _, linker, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    torch.manual_seed(1)
    for tower in linker.model.layers:
        module = tower_module(tower).double()
        for parameter in module.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return linker.model, linker.kb


def clean_step(model, kb, candidates, loss):
    entity_tower = model.get_ref("entity_tower")
    rows = row_builder(model).entities(kb.entities())
    mentions = np.random.default_rng(0).normal(size=(3, 32))
    mentions /= np.linalg.norm(mentions, axis=1, keepdims=True)
    entity_rows = rows.take(candidates.entity_places)
    entities, backprop = entity_tower.begin_update(entity_rows)
    assert entities.dtype == np.float64
    _, _, d_entities = loss_and_gradients(mentions, entities, candidates, Dual(), loss)
    return mentions, entity_tower, entity_rows, backprop(d_entities)


@pytest.mark.parametrize("loss", [ProxyLoss(), ProxyLoss(alpha=4.0, margin=0.1), CrossEntropyLoss()])
def test_per_mention_step_is_equations_6_and_7(double_model, loss):
    model, kb = double_model
    candidates = per_mention(GOLD, CORRECT, NEGATIVES)
    mentions, tower, rows, gradients = clean_step(model, kb, candidates, loss)
    fgsm = FGSM(epsilon=0.01)
    module = tower_module(tower).eval()
    width = 1 + NEGATIVES.places.shape[1]
    checked = 0
    for gradient, (indices, batch) in zip(gradients, token_batches(tower, rows)):
        step = fgsm.step(gradient, batch.mask)
        assert (step[~batch.mask] == 0).all()
        assert set(np.unique(np.abs(step[batch.mask]).round(12))) == {0.01}
        for i, pair in enumerate(indices):
            z = torch.zeros(1, *step.shape[1:], dtype=torch.float64, requires_grad=True)
            ids, mask = torch.as_tensor(batch.ids[i : i + 1]), torch.as_tensor(batch.mask[i : i + 1])
            score = module(ids, mask, z)[0] @ xp2torch(mentions[pair // width])
            (towards,) = torch.autograd.grad(score, z)
            is_gold = pair % width == 0
            expected = (-1 if is_gold else 1) * 0.01 * towards.sign().numpy()[0] * batch.mask[i][:, None]
            np.testing.assert_allclose(step[i], expected, atol=1e-12)
            checked += 1
    assert checked == 3 * width


def test_the_step_raises_the_loss(double_model):
    model, kb = double_model
    candidates, loss, fgsm = per_mention(GOLD, CORRECT, NEGATIVES), ProxyLoss(), FGSM(epsilon=0.001)
    mentions, tower, rows, gradients = clean_step(model, kb, candidates, loss)
    steps = [fgsm.step(g, batch.mask) for g, (_, batch) in zip(gradients, token_batches(tower, rows))]
    clean, _, _ = loss_and_gradients(mentions, tower.predict(rows), candidates, Dual(), loss)
    adversarial, _, _ = loss_and_gradients(mentions, tower.predict(rows.with_steps(steps)), candidates, Dual(), loss)
    assert adversarial > clean


@pytest.mark.parametrize("layout", [per_mention, shared])
def test_gradients_of_both_passes_add_up(double_model, layout):
    """dL/d(mention vectors) of `backpropagate` is that of L(m, P) + λ L(m, P_adv), and so is the loss it returns."""
    model, kb = double_model
    candidates, loss = layout(GOLD, CORRECT, NEGATIVES), ProxyLoss(alpha=4.0)
    mentions, tower, rows, gradients = clean_step(model, kb, candidates, loss)
    fgsm = FGSM(epsilon=0.01, weight=0.5)
    steps = [fgsm.step(g, batch.mask) for g, (_, batch) in zip(gradients, token_batches(tower, rows))]
    clean, d_clean, _ = loss_and_gradients(mentions, tower.predict(rows), candidates, Dual(), loss)
    extra, d_extra, _ = loss_and_gradients(mentions, tower.predict(rows.with_steps(steps)), candidates, Dual(), loss)
    received = []
    value = backpropagate(tower, mentions, received.append, candidates, rows, Dual(), loss, fgsm)
    assert value == pytest.approx(clean + 0.5 * extra, rel=1e-9)
    np.testing.assert_allclose(received[0], d_clean + 0.5 * d_extra, rtol=1e-9)


def test_in_float32_the_step_of_a_well_separated_pair_under_cross_entropy_is_not_lost(tmp_path):
    _, linker, _, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        model={"similarity": "dot"},
        loss={"@misc": "spacy_pel.CrossEntropyLoss.v1"},
    )
    tower = linker.model.get_ref("entity_tower")
    rows = row_builder(linker.model).entities(linker.kb.entities()).take([0, 1])
    entities, backprop = tower.begin_update(rows)
    mentions = 1000 * (entities[:1] - entities[1:])  # far on the side of the gold entity
    candidates = per_mention(np.array([0]), [[0]], DrawnNegatives(np.array([[1]])))
    _, _, d_entities = loss_and_gradients(mentions, entities, candidates, Dual(), linker.objective.loss)
    for gradient, (_, batch) in zip(backprop(d_entities), token_batches(tower, rows)):
        assert (np.abs(FGSM().step(gradient, batch.mask)[batch.mask]) > 0).mean() > 0.99
