"""What a linker keeps while it learns: refreshes, the age of its vectors, the rows it has seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.corpora.gold import gold_mentions
from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import encode_entities
from spacy_pel.models.tower import tower_module
from spacy_pel.training.callbacks import make_refresh_negatives


@pytest.fixture
def pipeline(tmp_path):
    return make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))


def test_negatives_are_refreshed_once_an_epoch(pipeline, monkeypatch):
    nlp, linker, _, _ = pipeline
    refreshed = []
    monkeypatch.setattr(linker, "refresh_negatives", lambda: refreshed.append(step))
    callback = make_refresh_negatives()
    for step, epoch in enumerate([0, 0, 0, 1, 1, 2]):
        callback(nlp, {"step": step, "epoch": epoch})
    assert refreshed == [0, 3, 5]
    nlp.config["training"]["frozen_components"] = ["pel_linker"]
    callback(nlp, {"step": 6, "epoch": 3})
    assert refreshed == [0, 3, 5]


def test_another_rhythm_than_epochs_is_refused():
    with pytest.raises(PelError, match="every is 'hour'"):
        make_refresh_negatives(every="hour")


def test_random_negatives_need_no_pass_over_the_kb(tmp_path):
    nlp, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 4},
    )
    linker.refresh_negatives()
    nlp.update(examples)
    assert linker._trainer._index is None


def test_scores_are_of_vectors_at_most_one_update_old(pipeline):
    nlp, linker, examples, optimizer = pipeline
    linker.refresh_negatives()
    trainer = linker._trainer
    first = current_index(trainer)
    nlp.update(examples, sgd=optimizer)
    assert current_index(trainer) is first
    nlp.update(examples, sgd=optimizer)
    second = current_index(trainer)
    assert second is not first
    vectors = encode_entities(linker.model, trainer.entity_rows)
    scores, rows = second.search(vectors, 1)
    assert rows[:, 0].tolist() == list(range(len(linker.kb)))
    np.testing.assert_allclose(scores[:, 0], 1.0, atol=1e-5)


def current_index(trainer):
    trainer.search(np.zeros((1, 32), dtype="float32"), 1)
    return trainer._index


def test_mention_rows_are_made_once(pipeline, monkeypatch):
    nlp, linker, examples, optimizer = pipeline
    nlp.update(examples, sgd=optimizer)
    builder = linker.model.attrs["row_builder"]
    asked = []
    original = builder.mentions
    monkeypatch.setattr(builder, "mentions", lambda spans: asked.append(len(spans)) or original(spans))
    nlp.update(examples, sgd=optimizer)
    assert asked == [0]


def test_gradients_of_two_batches_add_up(tmp_path):
    """Without an optimizer step between them, as spaCy's accumulate_gradient has it. Negatives: all of the KB."""
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
    )
    weights = dict(tower_module(linker.model.get_ref("mention_tower")).named_parameters())
    mentions = [mention for example in examples for mention in gold_mentions(example.reference)]

    def gradients(*batches):
        for weight in weights.values():
            weight.grad = None
        for batch in batches:
            linker._training().accumulate(batch)
        return {name: weight.grad.clone() for name, weight in weights.items() if weight.grad is not None}

    first, second, both = gradients(mentions[:6]), gradients(mentions[6:]), gradients(mentions[:6], mentions[6:])
    assert len(both) > 30 and any(gradient.abs().sum() > 0 for gradient in both.values())
    for name, gradient in both.items():
        torch.testing.assert_close(gradient, first[name] + second[name], rtol=1e-4, atol=1e-5)
