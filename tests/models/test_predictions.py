"""The transformer that predicts: the weights, and the states, of the one that is trained."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from tiny import make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_mention_rows
from spacy_pel.models.predictions import for_predictions


@pytest.fixture
def pipeline(tmp_path):
    return make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))


def vectors(linker, nlp):
    """Predicted, and computed as training does."""
    rows = row_builder(linker.model).mentions([ent for doc in make_docs(nlp) for ent in doc.ents])
    learning, _ = linker.model.get_ref("mention_tower")(rows, is_train=True)
    return encode_mention_rows(linker.model, rows), learning


def test_its_attention_is_another_and_its_weights_are_the_same(pipeline):
    _, linker, _, _ = pipeline
    transformer = tower_module(linker.model.layers[0]).transformer
    copied = for_predictions(transformer, torch.float32)
    assert (transformer.config._attn_implementation, copied.config._attn_implementation) == ("eager", "sdpa")
    own, its = (dict(one.named_parameters()) for one in (transformer, copied))
    assert {name: weight.data_ptr() for name, weight in own.items()} == {
        n: weight.data_ptr() for n, weight in its.items()
    }


def test_it_follows_the_training(pipeline):
    nlp, linker, examples, optimizer = pipeline
    before, _ = vectors(linker, nlp)
    train(nlp, examples, optimizer, 2)
    predicted, learning = vectors(linker, nlp)
    np.testing.assert_allclose(predicted, learning, atol=1e-5)
    assert np.abs(predicted - before).max() > 1e-2


def test_it_is_in_no_copy_of_the_tower(pipeline):
    nlp, linker, _, _ = pipeline
    predicted, _ = vectors(linker, nlp)
    tower = tower_module(linker.model.layers[0])
    assert tower._copies and not pickle.loads(pickle.dumps(tower))._copies
    assert len(list(tower.parameters())) == len(list(tower.transformer.parameters()))
    np.testing.assert_allclose(vectors(linker, nlp)[0], predicted, atol=1e-6)
