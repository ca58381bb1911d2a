"""Encoders of other kinds than BERT: loaded, encoded with, trained a step, saved and read again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from tiny import ENTITIES, make_examples, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.models.storage import load, save

FAMILIES = {
    "Roberta": {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32},
    "MPNet": {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32},
    "Electra": {
        **{"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32},
        "embedding_size": 32,
    },
    "DistilBert": {"hidden_dim": 64, "n_layers": 2, "n_heads": 2, "dim": 32},
}


def write_family(family, path):
    """A tiny random encoder of that family with the word pieces of the tiny BERT."""
    write_encoder(path)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(path)
    config_class, model_class = (getattr(transformers, f"{family}{kind}") for kind in ("Config", "Model"))
    config = config_class(vocab_size=len(tokenizer), pad_token_id=0, max_position_embeddings=66, **FAMILIES[family])
    torch.manual_seed(0)
    model_class(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_round(family, tmp_path):
    encoder = write_family(family, tmp_path / "encoder")
    nlp, linker, _, optimizer = make_pipeline(encoder, make_kb(tmp_path / "kb"), dropout=0.1)
    assert nlp.update(make_examples(nlp), sgd=optimizer)["pel_linker"] > 0
    rows = row_builder(linker.model).entities(ENTITIES)
    vectors = encode_entity_rows(linker.model, rows)
    alone = np.concatenate([encode_entity_rows(linker.model, rows.take([i])) for i in range(len(rows))])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    save(linker.model, tmp_path / "model")
    np.testing.assert_array_equal(encode_entity_rows(load(tmp_path / "model", "fp32"), rows), vectors)


def test_positions_that_roberta_keeps_for_padding_do_not_count(tmp_path):
    encoder = write_family("Roberta", tmp_path / "encoder")
    with pytest.raises(PelError, match="rows of 66 tokens are longer than the 65 positions"):
        make_pipeline(encoder, make_kb(tmp_path / "kb"), model={"mention_length": 66})
