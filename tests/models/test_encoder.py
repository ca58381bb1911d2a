"""A tower: mean pooling over real tokens, gradients, precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import ENTITIES, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.models.precision import _cpu_has_bf16, check_precision, compute_dtype
from spacy_pel.models.token_rows import TokenRows


@pytest.fixture(scope="module", params=["cosine", "dot"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    loss = {"cosine": "spacy_pel.ProxyLoss.v1", "dot": "spacy_pel.CrossEntropyLoss.v1"}[request.param]
    _, linker, _, _ = make_pipeline(
        write_encoder(folder / "encoder"),
        make_kb(folder / "kb"),
        model={"similarity": request.param},
        loss={"@misc": loss},
    )
    return linker.model


def rows_of(model):
    return row_builder(model).entities(ENTITIES)


def test_vectors_are_the_mean_of_the_last_hidden_states(model):
    rows = rows_of(model)
    vectors = encode_entity_rows(model, rows)
    assert vectors.shape == (len(ENTITIES), 32) and vectors.dtype == np.float32
    transformer = tower_module(model.get_ref("entity_tower")).transformer.eval()
    for i, vector in enumerate(vectors):
        with torch.no_grad():
            hidden = transformer(input_ids=torch.tensor(rows[i].tolist())[None]).last_hidden_state[0]
        expected = hidden.mean(0).numpy()
        if model.attrs["settings"]["similarity"] == "cosine":
            expected = expected / np.linalg.norm(expected)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_a_row_has_one_vector_whatever_its_batch(model):
    rows = rows_of(model)
    together = encode_entity_rows(model, rows)
    alone = np.concatenate([encode_entity_rows(model, rows.take([i])) for i in range(len(rows))])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert encode_entity_rows(model, TokenRows.from_lists([])).shape[0] == 0


def test_backprop_gives_the_gradient_of_every_parameter(model):
    tower = model.get_ref("entity_tower")
    module, rows = tower_module(tower), rows_of(model).take([0, 5])
    target = np.random.default_rng(0).normal(size=(2, 32)).astype("float32")
    module.zero_grad()
    _, backprop = tower.begin_update(rows)
    backprop(target)
    received = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    for i in range(2):
        ids = torch.tensor(rows[i].tolist())[None]
        vector = module(ids, torch.ones_like(ids, dtype=torch.bool), None)[0]
        (vector @ torch.tensor(target[i])).backward()
    assert len(received) > 30
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(received[name], parameter.grad, rtol=1e-3, atol=1e-5)
    module.zero_grad()


def test_bfloat16_agrees_with_float32(model):
    module, rows = tower_module(model.get_ref("entity_tower")), rows_of(model)
    vectors = {}
    try:
        for module.precision in ("bf16", "fp32"):
            vectors[module.precision] = encode_entity_rows(model, rows)
    finally:
        module.precision = "fp32"
    norms = [np.linalg.norm(v, axis=1) for v in vectors.values()]
    cosines = (vectors["bf16"] * vectors["fp32"]).sum(1) / (norms[0] * norms[1])
    assert cosines.min() > 0.999
    assert vectors["bf16"].dtype == np.float32 and (vectors["bf16"] != vectors["fp32"]).any()


def test_auto_takes_bfloat16_where_the_processor_has_it(monkeypatch):
    cpu = torch.device("cpu")
    assert _cpu_has_bf16({"amx_bf16": True}) and _cpu_has_bf16({"avx512_bf16": True})
    assert not _cpu_has_bf16({"avx512_f": True, "avx512_bf16": False}) and not _cpu_has_bf16({})
    assert compute_dtype("fp32", cpu) is torch.float32 and compute_dtype("bf16", cpu) is torch.bfloat16
    for capabilities, dtype in (({"amx_bf16": True}, torch.bfloat16), ({}, torch.float32)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=capabilities: found, raising=False)
        assert compute_dtype("auto", cpu) is dtype
    assert compute_dtype("auto", torch.device("mps")) is torch.float32
    with pytest.raises(PelError, match="precision is 'fp16'"):
        check_precision("fp16")
