"""Predictions in int8: the arithmetic, and that they follow the weights."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from tiny import ENTITIES, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.models.int8 import Int8Linear, int8_copy
from spacy_pel.models.precision import compute_dtype
from spacy_pel.models.storage import fingerprint, load, save

LARGEST = """
import torch
from spacy_pel.models.int8 import Int8Linear

linear = torch.nn.Linear(384, 8, bias=False)
torch.nn.init.ones_(linear.weight)
print(Int8Linear(linear)(torch.ones(2, 384)).unique().tolist())
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    return make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"), model={"precision": "int8"})


@pytest.fixture
def model(made, tmp_path):
    save(made[1].model, tmp_path / "model")
    return load(tmp_path / "model", "int8")


def vectors_of(model, precision="int8"):
    module = tower_module(model.get_ref("entity_tower"))
    module.precision, before = precision, module.precision
    try:
        return encode_entity_rows(model, row_builder(model).entities(ENTITIES))
    finally:
        module.precision = before


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_its_rounded_weights_times_its_rounded_inputs(bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(48, 20, bias=bias)
    inputs = torch.randn(3, 5, 48) * torch.logspace(-3, 3, 5)[:, None]
    inputs[0, 0] = 0
    w = linear.weight.detach().abs().amax(1, keepdim=True) / 63
    x = inputs.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    integers = torch.round(inputs * (1 / x)).double() @ torch.round(linear.weight.detach() / w).double().T
    expected = integers * x * w.T + (linear.bias.detach() if bias else 0)
    with torch.no_grad():
        outputs = Int8Linear(linear)(inputs)
        torch.testing.assert_close(outputs.double(), expected.double(), rtol=1e-5, atol=1e-6)
        error = (outputs - linear(inputs)).norm(dim=-1) / (inputs.norm(dim=-1) + 1e-9)
    assert outputs.dtype is torch.float32 and error.max() < 0.02


@pytest.mark.parametrize("instructions", ["SSE41", "AVX2", "AVX512_CORE", "ALL"])
def test_no_sum_is_cut_off_on_any_processor(instructions):
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": instructions}
    result = subprocess.run([sys.executable, "-c", LARGEST], env=environment, capture_output=True, text=True)
    (value,) = eval(result.stdout)
    assert value == pytest.approx(384, rel=1e-5)


def test_not_a_number_stays_one():
    linear = torch.nn.Linear(8, 2)
    with torch.no_grad():
        linear.weight[0, 0] = float("nan")
        assert Int8Linear(linear)(torch.ones(1, 8))[0].isnan().tolist() == [True, False]
        assert Int8Linear(torch.nn.Linear(8, 2))(torch.full((1, 8), float("nan"))).isnan().all()


def test_vectors_agree_with_those_of_float32(model):
    own, exact = vectors_of(model), vectors_of(model, "fp32")
    assert own.dtype == np.float32 and (own != exact).any()
    assert (own * exact).sum(1).min() > 0.995


def test_a_row_has_one_vector_whatever_its_batch(model):
    rows = row_builder(model).entities(ENTITIES)
    alone = np.concatenate([encode_entity_rows(model, rows.take([i])) for i in range(len(rows))])
    assert (vectors_of(model) * alone).sum(1).min() > 0.9999


def test_only_linear_layers_are_copied(model):
    transformer = tower_module(model.get_ref("entity_tower")).transformer
    copied = int8_copy(transformer)
    kinds = [type(module) for module in copied.modules()]
    assert torch.nn.Linear not in kinds and kinds.count(Int8Linear) == 2 * 6
    assert any(isinstance(module, torch.nn.Linear) for module in transformer.modules())
    theirs = {id(parameter) for parameter in transformer.parameters()}
    assert all(id(parameter) in theirs for parameter in copied.parameters())


def test_weights_and_fingerprint_are_those_of_float32(model, tmp_path):
    before = fingerprint(model)
    module = tower_module(model.get_ref("entity_tower"))
    names = [name for name, _ in module.named_parameters()]
    vectors = vectors_of(model)
    assert [name for name, _ in module.named_parameters()] == names and fingerprint(model) == before
    np.testing.assert_array_equal(
        encode_entity_rows(copy.deepcopy(model), row_builder(model).entities(ENTITIES)), vectors
    )
    save(model, tmp_path / "again")
    np.testing.assert_array_equal(vectors_of(load(tmp_path / "again", "fp32"), "fp32"), vectors_of(model, "fp32"))


def test_training_is_as_with_auto(model):
    rows, gradients = row_builder(model).entities(ENTITIES), []
    module = tower_module(tower := model.get_ref("entity_tower"))
    for module.precision in ("int8", "auto"):
        module.zero_grad()
        vectors, backprop = tower.begin_update(rows)
        backprop(np.ones_like(vectors))
        gradients.append([vectors, *(p.grad.numpy().copy() for p in module.parameters() if p.grad is not None)])
    module.precision = "int8"
    module.zero_grad()
    assert len(gradients[0]) > 30
    for own, auto in zip(*gradients):
        np.testing.assert_array_equal(own, auto)


def test_predictions_follow_the_weights(made, tmp_path):
    nlp, linker, examples, optimizer = made
    before = vectors_of(linker.model)
    train(nlp, examples, optimizer, 2)
    after = vectors_of(linker.model)
    assert (before * after).sum(1).max() < 0.999
    save(linker.model, tmp_path / "model")
    np.testing.assert_array_equal(vectors_of(load(tmp_path / "model", "int8")), after)


def test_a_pytorch_without_onednn(model, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(PelError, match=r'precision = "int8" .* needs oneDNN'):
        vectors_of(model)


def test_it_is_for_predictions_on_cpus():
    cpu, mps = torch.device("cpu"), torch.device("mps")
    assert compute_dtype("int8", cpu) is torch.int8
    assert compute_dtype("int8", cpu, training=True) is compute_dtype("auto", cpu)
    assert compute_dtype("int8", mps) is compute_dtype("auto", mps)
