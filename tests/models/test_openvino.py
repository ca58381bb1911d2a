"""Predictions by OpenVINO: those of PyTorch, whatever the batch, in all threads and processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tiny import ENTITIES, SENTENCES, add_ruler, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import make_bi_encoder, row_builder
from spacy_pel.models.cross_encoder import make_cross_encoder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows, encode_mention_rows
from spacy_pel.models.openvino import CompiledTransformer
from spacy_pel.models.precision import compute_dtype
from spacy_pel.models.predictions import for_predictions
from spacy_pel.models.storage import fingerprint, load, save

pytest.importorskip("openvino")
BOTH = ("openvino", "openvino-int8")
SILENT = """
import spacy_pel.models.openvino as own, sys
own._imported()
assert "openvino" in sys.modules and sys.modules["openvino_telemetry"] is None
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openvino")
    return make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"), model={"precision": "openvino"})


@pytest.fixture
def model(made, tmp_path):
    save(made[1].model, tmp_path / "model")
    return load(tmp_path / "model", "openvino")


def vectors_of(model, precision):
    tower_module(model.get_ref("entity_tower")).precision = precision
    return encode_entity_rows(model, row_builder(model).entities(ENTITIES))


def batch(model, n, length):
    """Token ids and a mask (n, length) of which every other row is half as long."""
    ids = torch.randint(5, 50, (n, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(n, length, dtype=torch.bool)
    mask[::2, length // 2 :] = False
    return ids, mask


@pytest.mark.parametrize(
    ("dtype", "smallest"), [(torch.float32, 0.999999), (torch.bfloat16, 0.999), (torch.int8, 0.99)]
)
def test_states_are_those_of_pytorch_for_any_batch(model, dtype, smallest):
    transformer = tower_module(model.get_ref("entity_tower")).transformer
    exact, own = for_predictions(transformer, torch.float32), CompiledTransformer(transformer, dtype)
    for n, length in ((1, 4), (3, 9), (8, 20), (1, 20)):
        ids, mask = batch(model, n, length)
        with torch.no_grad():
            embedded = own.get_input_embeddings()(ids)
            expected, states = (
                one(inputs_embeds=embedded, attention_mask=mask).last_hidden_state for one in (exact, own)
            )
        assert states.dtype is torch.float32 and states.shape == expected.shape
        cosines = torch.nn.functional.cosine_similarity(states, expected, dim=-1)[mask]
        assert cosines.min() > smallest
    assert len(own._compiled) == 1


def test_segments_places_and_a_mask_of_pairs(model):
    transformer = tower_module(model.get_ref("entity_tower")).transformer
    exact, own = for_predictions(transformer, torch.float32), CompiledTransformer(transformer, torch.float32)
    ids, mask = batch(model, 2, 8)
    sees = mask[:, None, :] & torch.ones(8, 8, dtype=torch.bool).tril()
    inputs = {"token_type_ids": (ids > 25).long(), "position_ids": torch.arange(8).flip(0).expand(2, 8)}
    with torch.no_grad():
        embedded = own.get_input_embeddings()(ids)
        for given in (mask, sees):
            expected, states = (
                one(inputs_embeds=embedded, attention_mask=given, **inputs).last_hidden_state for one in (exact, own)
            )
            torch.testing.assert_close(states[mask], expected[mask], rtol=1e-4, atol=1e-5)
    assert len(own._compiled) == 2


def test_vectors_agree_and_a_row_does_not_depend_on_its_batch(model):
    exact = vectors_of(model, "fp32")
    rows = row_builder(model).entities(ENTITIES)
    for precision, smallest in zip(BOTH, (0.999, 0.99), strict=True):
        own = vectors_of(model, precision)
        assert own.dtype == np.float32 and (own != exact).any() and (own * exact).sum(1).min() > smallest
        alone = np.concatenate([encode_entity_rows(model, rows.take([i])) for i in range(len(rows))])
        assert (own * alone).sum(1).min() > 0.9999


def test_all_threads_get_the_same(model):
    expected = vectors_of(model, "openvino-int8")
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: vectors_of(model, "openvino-int8"), range(12)):
            np.testing.assert_array_equal(found, expected)


def test_processes_link_as_one(made, tmp_path):
    import spacy

    nlp, linker, examples, optimizer = made
    train(nlp, examples, optimizer, 2)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "pipeline")
    for precision in BOTH:
        own = spacy.load(tmp_path / "pipeline", config={"components.pel_linker.model.precision": precision})
        add_ruler(own)
        texts = [f"{text} Number {number}." for number in range(10) for text, _ in SENTENCES]
        alone = [[ent.kb_id_ for ent in doc.ents] for doc in own.pipe(texts)]
        together = [[ent.kb_id_ for ent in doc.ents] for doc in own.pipe(texts, n_process=2, batch_size=7)]
        assert together == alone and sum(map(len, alone)) > 60


def test_training_is_pytorch_s_and_predictions_follow_it(made):
    nlp, linker, examples, optimizer = made
    rows = row_builder(linker.model).mentions([ent for doc in make_docs(nlp) for ent in doc.ents])
    before = encode_mention_rows(linker.model, rows)
    train(nlp, examples, optimizer, 2)
    after = encode_mention_rows(linker.model, rows)
    learning, _ = linker.model.get_ref("mention_tower")(rows, is_train=True)
    assert (before * after).sum(1).max() < 0.999 < (after * learning).sum(1).min()
    assert compute_dtype("openvino-int8", torch.device("cpu"), training=True) is compute_dtype(
        "auto", torch.device("cpu")
    )


def test_nothing_of_it_is_saved_or_copied(model, tmp_path):
    before = fingerprint(model)
    vectors = vectors_of(model, "openvino")
    module = tower_module(model.get_ref("entity_tower"))
    assert module._copies and not pickle.loads(pickle.dumps(module))._copies and fingerprint(model) == before
    save(model, tmp_path / "again")
    np.testing.assert_array_equal(vectors_of(load(tmp_path / "again", "openvino"), "openvino"), vectors)


def test_it_is_not_installed(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(PelError, match=r'"openvino" .* needs OpenVINO: run .*"spacy-pel\[openvino\]"'):
        vectors_of(model, "openvino")
    for make, name in ((make_bi_encoder, "linker"), (make_cross_encoder, "ranker")):
        with pytest.raises(
            PelError, match=rf"components.pel_{name}.model\]: precision = 'openvino-int8'; it needs Open"
        ):
            make(precision="openvino-int8")


def test_a_transformer_that_it_cannot_read(model, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no such operation")

    own = for_predictions(tower_module(model.get_ref("entity_tower")).transformer, torch.float32, by_openvino=True)
    monkeypatch.setattr(own._openvino, "convert_model", fails)
    ids, mask = batch(model, 2, 4)
    with pytest.raises(PelError, match=r'cannot read a BertModel \(no such operation\); take "auto"'), torch.no_grad():
        own(inputs_embeds=own.get_input_embeddings()(ids), attention_mask=mask)


def test_nobody_is_told_of_its_use():
    subprocess.run([sys.executable, "-c", SILENT], check=True)
