"""What of a row makes its vector: against the mean of hidden states taken by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows, encode_mention_rows
from spacy_pel.models.storage import fingerprint, load, save


def make(folder, pooling):
    encoder = write_encoder(folder / "encoder")
    return make_pipeline(encoder, make_kb(folder / f"kb-{pooling}"), model={"pooling": pooling})


def states(model, tower, row):
    transformer = tower_module(model.get_ref(tower)).transformer.eval()
    with torch.no_grad():
        ids = torch.as_tensor(row.astype("int64"))[None]
        return transformer(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].numpy()


def between_markers(model, row):
    start, end = (row.tolist().index(marker) for marker in row_builder(model).markers)
    return list(range(start + 1, end))


@pytest.mark.parametrize("pooling", ["mean", "mention", "cls"])
def test_the_vector_is_the_mean_over_those_tokens(tmp_path, pooling):
    nlp, linker, _, _ = make(tmp_path, pooling)
    model = linker.model
    mentions = row_builder(model).mentions([ent for doc in make_docs(nlp) for ent in doc.ents])
    entities = row_builder(model).entities(ENTITIES)
    for tower, rows, encode in (
        ("mention_tower", mentions, encode_mention_rows),
        ("entity_tower", entities, encode_entity_rows),
    ):
        for i, vector in enumerate(encode(model, rows)):
            hidden = states(model, tower, rows[i])
            taken = {"mean": slice(None), "cls": [0], "mention": slice(None)}[pooling]
            if pooling == "mention" and tower == "mention_tower":
                taken = between_markers(model, rows[i])
            mean = hidden[taken].mean(0)
            assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


@pytest.mark.parametrize("pooling", ["mention", "cls"])
def test_it_learns_and_is_read_back(tmp_path, pooling):
    nlp, linker, examples, optimizer = make(tmp_path, pooling)
    losses = train(nlp, examples, optimizer, 15)
    assert losses[-1] < losses[0]
    rows = row_builder(linker.model).mentions([ent for doc in make_docs(nlp) for ent in doc.ents])
    save(linker.model, tmp_path / "model")
    again = load(tmp_path / "model", "fp32")
    assert again.attrs["settings"]["pooling"] == pooling
    np.testing.assert_array_equal(encode_mention_rows(again, rows), encode_mention_rows(linker.model, rows))


def test_a_kb_fits_where_its_vectors_are_the_same(tmp_path):
    prints = {pooling: fingerprint(make(tmp_path, pooling)[1].model) for pooling in ("mean", "mention", "cls")}
    assert prints["mean"] == prints["mention"] != prints["cls"]


def test_a_pooling_that_does_not_exist(tmp_path):
    with pytest.raises(PelError, match="pooling is 'max'"):
        make(tmp_path, "max")
