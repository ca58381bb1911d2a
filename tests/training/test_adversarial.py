"""FGSM in float64 with dropout off, against eq. 6-7 written with `torch.autograd.grad` on each pair's own score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from thinc.api import xp2torch
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import LAYERS, set_layer, token_batches, tower_module
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


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("loss", [ProxyLoss(origin=0.0), ProxyLoss(4.0, 0.1, 0.0), CrossEntropyLoss()])
def test_per_mention_step_is_equations_6_and_7(double_model, loss, layer):
    model, kb = double_model
    set_layer(model.get_ref("entity_tower"), layer, "[adversarial]")
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


def test_the_normalised_layer_is_behind_the_embedding_module(double_model):
    """By hand: the encoder's layers over what the embedding module gives, and the step."""
    tower = double_model[0].get_ref("entity_tower")
    module, transformer = tower_module(tower), tower_module(tower).transformer.eval()
    ids = torch.tensor([[2, 40, 41, 42, 3]])
    mask, step = torch.ones_like(ids, dtype=torch.bool), 0.1 * torch.randn(1, 5, 32, dtype=torch.float64)
    with torch.no_grad():
        by_layer = {}
        for layer in LAYERS:
            set_layer(tower, layer, "[adversarial]")
            by_layer[layer] = module.states(ids, mask, step)
            torch.testing.assert_close(module.states(ids, mask, 0 * step), module.states(ids, mask, None))
        hidden = transformer.embeddings(ids) + step
        expected = transformer.encoder(hidden, attention_mask=torch.zeros(1, 1, 1, 5, dtype=torch.float64))
    torch.testing.assert_close(by_layer["normalised"], expected.last_hidden_state)
    assert (by_layer["sum"] - by_layer["normalised"]).abs().max() > 1e-3
    assert not transformer.embeddings._forward_hooks
    module.transformer = torch.nn.Linear(2, 2)
    with pytest.raises(
        PelError, match=r'\[adversarial\]: layer = .normalised.; make it "sum": a Linear has no embeddings'
    ):
        set_layer(tower, "normalised", "[adversarial]")


@pytest.mark.parametrize("layer", LAYERS)
def test_a_session_steps_on_the_layer_of_its_fgsm(tmp_path, layer):
    adversarial = {"@misc": "spacy_pel.FGSM.v1", "layer": layer}
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, examples, optimizer = make_pipeline(encoder, kb, adversarial=adversarial)
    nlp.update(examples, sgd=optimizer)
    assert tower_module(linker.model.get_ref("entity_tower")).layer == layer


def test_the_step_raises_the_loss(double_model):
    model, kb = double_model
    candidates, loss, fgsm = per_mention(GOLD, CORRECT, NEGATIVES), ProxyLoss(origin=0.0), FGSM(epsilon=0.001)
    mentions, tower, rows, gradients = clean_step(model, kb, candidates, loss)
    steps = [fgsm.step(g, batch.mask) for g, (_, batch) in zip(gradients, token_batches(tower, rows))]
    clean, _, _ = loss_and_gradients(mentions, tower.predict(rows), candidates, Dual(), loss)
    adversarial, _, _ = loss_and_gradients(mentions, tower.predict(rows.with_steps(steps)), candidates, Dual(), loss)
    assert adversarial > clean


@pytest.mark.parametrize("layout", [per_mention, shared])
def test_gradients_of_both_passes_add_up(double_model, layout):
    """dL/d(mention vectors) of `backpropagate` is that of L(m, P) + λ L(m, P_adv), and so is the loss it returns."""
    model, kb = double_model
    candidates, loss = layout(GOLD, CORRECT, NEGATIVES), ProxyLoss(4.0, 0.0, 0.0)
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
