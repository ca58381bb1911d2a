"""The bi-encoder as a whole: fingerprint, folder on disk, both towers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import spacy
import srsly
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny import ENTITIES, make_kb, make_pipeline, write_encoder
from transformers import AutoTokenizer

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import make_bi_encoder, row_builder, vector_size
from spacy_pel.models.cross_encoder import make_cross_encoder
from spacy_pel.models.cross_encoder import set_encoder as set_cross_encoder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.encoding import UNREADABLE, encode_entities, encode_entity_rows, encode_spans, stream_entities
from spacy_pel.models.pretrained import set_encoder
from spacy_pel.models.storage import fingerprint, load, mention_fingerprint, save


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def build(encoder, **settings):
    torch.manual_seed(0)
    model = make_bi_encoder(**{"mention_length": 32, "entity_length": 32, "precision": "fp32"} | settings)
    set_encoder(model, HFEncoder(str(encoder), dropout=0.0)())
    return model


def nudge(model, tower):
    next(tower_module(model.get_ref(tower)).parameters()).data[:, 0] += 0.1


def test_fingerprint_is_that_of_what_decides_entity_vectors(encoder):
    model = build(encoder)
    first = fingerprint(model)
    assert first == fingerprint(build(encoder)) and len(first) == 64
    nudge(model, "mention_tower")
    assert fingerprint(model) == first
    nudge(model, "entity_tower")
    assert fingerprint(model) != first
    for settings in (
        {"entity_length": 16},
        {"aliases": "never"},
        {"similarity": "dot"},
        {"entity_template": "general"},
    ):
        assert fingerprint(build(encoder, **settings)) != first
    for settings in ({"mention_length": 16}, {"precision": "bf16"}):
        assert fingerprint(build(encoder, **settings)) == first


def test_the_other_fingerprint_is_that_of_what_decides_vectors_of_mentions(encoder):
    model = build(encoder)
    first = mention_fingerprint(model)
    assert first == mention_fingerprint(build(encoder, precision="bf16")) and len(first) == 64
    nudge(model, "entity_tower")
    assert mention_fingerprint(model) == first
    nudge(model, "mention_tower")
    assert mention_fingerprint(model) != first
    for settings in ({"mention_length": 16}, {"context": 4}, {"pooling": "mention"}):
        assert mention_fingerprint(build(encoder, **settings)) != first


def test_towers_are_two_unless_shared(encoder):
    model = build(encoder)
    nudge(model, "mention_tower")
    rows = row_builder(model).entities(ENTITIES)
    mentions, entities = model.predict((rows, rows))
    assert not np.allclose(mentions, entities, atol=1e-7)
    shared = build(encoder, shared_towers=True)
    nudge(shared, "mention_tower")
    mentions, entities = shared.predict((rows, rows))
    np.testing.assert_array_equal(mentions, entities)


def test_both_towers_learn_through_the_whole_model(encoder):
    model = build(encoder)
    rows = row_builder(model).entities(ENTITIES[:3])
    (mentions, entities), backprop = model.begin_update((rows, rows))
    d_inputs = backprop((np.ones_like(mentions), np.ones_like(entities)))
    assert [len(d) for d in d_inputs] == [1, 1] and d_inputs[0][0].shape == (3, int(rows.lengths.max()), 32)
    for tower in ("mention_tower", "entity_tower"):
        assert any(
            p.grad is not None and p.grad.abs().sum() > 0 for p in tower_module(model.get_ref(tower)).parameters()
        )


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_saved_is_what_is_loaded(encoder, tmp_path, shared):
    model = build(encoder, shared_towers=shared, aliases="first")
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", "fp32")
    assert again.attrs["settings"] == model.attrs["settings"] and fingerprint(again) == fingerprint(model)
    rows = row_builder(model).entities(ENTITIES)
    np.testing.assert_array_equal(model.predict((rows, rows))[0], again.predict((rows, rows))[0])
    assert "embeddings.word_embeddings.weight" in load_file(tmp_path / "model" / "mention" / "model.safetensors")
    assert (tmp_path / "model" / "entity").exists() != shared


def test_nothing_on_disk_is_a_pickle(encoder, tmp_path):
    save(build(encoder), tmp_path / "model")
    endings = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert endings <= {".json", ".safetensors", ".txt"}


def test_a_tokenizer_that_cannot_be_written_is_named(encoder, tmp_path, monkeypatch):
    model = build(encoder)

    def full(*args, **kwargs):
        raise Exception("No space left on device (os error 28)")  # as tokenizers raises it

    monkeypatch.setattr(model.attrs["row_builder"].tokenizer, "save_pretrained", full)
    with pytest.raises(PelError, match=r"tokenizer: cannot be written \(No space left"):
        save(model, tmp_path / "model")


def test_without_weights_the_error_says_how_to_get_some():
    with pytest.raises(PelError, match=r"name an encoder_loader in \[initialize.components.pel_linker\]"):
        row_builder(make_bi_encoder())


@pytest.mark.parametrize("name", ["/no/such/folder", "tests"])
def test_an_encoder_that_cannot_be_loaded_is_named(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PelError, match=rf"no encoder can be loaded from '{name}'"):
        HFEncoder(name)()


def truncated(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


def pointer(folder):
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:53aa\nsize 9\n")


def of_other_weights(folder):
    config = srsly.read_json(folder / "config.json")
    srsly.write_json(folder / "config.json", config | {"intermediate_size": 48})


@pytest.mark.parametrize(
    ("damage", "why"),
    [(truncated, ""), (pointer, ""), (of_other_weights, "size mismatch for ")],
)
def test_an_encoder_with_broken_weights_is_named(damage, why, tmp_path):
    folder = write_encoder(tmp_path / "encoder")
    damage(folder)
    with pytest.raises(PelError, match=rf"no encoder can be loaded from .*encoder'; give .* of git-lfs.* \(.+{why}"):
        HFEncoder(str(folder))()


@pytest.mark.parametrize("family", ["GPT2", "T5"])
def test_an_encoder_of_no_kind_that_is_read_with_is_named(family, tmp_path):
    folder = write_encoder(tmp_path / "encoder")
    sizes = {
        "GPT2": {"n_embd": 32, "n_layer": 1, "n_head": 2},
        "T5": {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    }
    config = getattr(transformers, f"{family}Config")(vocab_size=300, **sizes[family])
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    with pytest.raises(
        PelError,
        match=rf"encoder_loader\] spacy_pel.HFEncoder.v1: .*encoder' is of the kind {family.lower()}.* BERT's kind",
    ):
        HFEncoder(str(folder))()


def test_dropout_is_set_by_the_loader(encoder):
    config = HFEncoder(str(encoder), dropout=0.25)().transformer.config
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.25


def test_an_encoder_for_entities_alone(encoder, tmp_path):
    torch.manual_seed(1)
    other = write_encoder(tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    key = "embeddings.word_embeddings.weight"
    weights[key] = weights[key] + 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    model = make_bi_encoder(mention_length=32, entity_length=32, precision="fp32")
    set_encoder(model, HFEncoder(str(encoder), dropout=0.0, entity_name=str(other))())
    alone = {name: build(folder) for name, folder in (("mention", encoder), ("entity", other))}
    for name, own in alone.items():
        towers = (tower_module(one.get_ref(f"{name}_tower")).transformer for one in (model, own))
        first, second = (tower.embeddings.word_embeddings.weight[:50] for tower in towers)
        assert torch.equal(first, second), name
    assert fingerprint(model) != fingerprint(alone["mention"])
    shared = make_bi_encoder(shared_towers=True, mention_length=32, entity_length=32)
    with pytest.raises(PelError, match=r"shared_towers = true, and entity_name in .* leave one of them out"):
        set_encoder(shared, HFEncoder(str(encoder), entity_name=str(other))())
    with pytest.raises(PelError, match="one transformer reads mention and entity; leave entity_name"):
        set_cross_encoder(make_cross_encoder(), HFEncoder(str(encoder), entity_name=str(other))())


def test_two_encoders_that_do_not_fit_each_other(encoder, tmp_path):
    larger = write_encoder(tmp_path / "larger", hidden_size=64)
    with pytest.raises(PelError, match=r"it has vectors of another size than .*; name the two halves of one model"):
        HFEncoder(str(encoder), entity_name=str(larger))()
    other = write_encoder(tmp_path / "other")
    tokenizer = AutoTokenizer.from_pretrained(other)
    tokenizer.add_tokens(["dropsy"])
    tokenizer.save_pretrained(other)
    with pytest.raises(PelError, match=r"entity_name = .* it has another vocabulary"):
        HFEncoder(str(encoder), entity_name=str(other))()


def test_weights_that_an_encoder_lacks_are_named_and_those_of_a_pooler_are_not(tmp_path, capfd):
    folder = write_encoder(tmp_path / "encoder")
    weights = load_file(folder / "model.safetensors")
    (key,) = [key for key in weights if key.endswith("0.output.dense.bias")]
    left = {name: weight for name, weight in weights.items() if "pooler" not in name}
    save_file(left, folder / "model.safetensors", metadata={"format": "pt"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HFEncoder(str(folder))()
    del left[key]
    save_file(left, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.warns(UserWarning, match=rf"lacks 1 of the encoder's weights, which begin at random: {key}"):
        HFEncoder(str(folder))()
    assert "newly initialized" not in capfd.readouterr().err


def test_training_updates_both_towers(encoder, tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(encoder, make_kb(tmp_path / "kb"))
    before = [[p.clone() for p in tower_module(tower).parameters()] for tower in linker.model.layers]
    nlp.update(examples, sgd=optimizer)
    for old, tower in zip(before, linker.model.layers):
        assert any((a != b).any() for a, b in zip(old, tower_module(tower).parameters()))


def test_spans_go_in_and_the_vectors_of_the_distinct_ones_come_out(encoder):
    """One vector for each row and text; a span without a word piece has none."""
    model = build(encoder, context=0)
    nlp = spacy.blank("en")
    doc = nlp("aspirin and lithium , aspirin \u200b")
    other = nlp("ASPIRIN")
    spans = [doc[0:1], doc[2:3], doc[4:5], doc[5:6], other[0:1]]
    vectors, places = encode_spans(model, spans)
    assert places.tolist() == [0, 1, 0, UNREADABLE, 2]  # the text of the last is another, though its row is the first's
    assert vectors.shape == (3, 32) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[0], vectors[2])
    alone = np.concatenate([encode_spans(model, [span])[0] for span in (spans[0], spans[1], spans[4])])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    vectors, places = encode_spans(model, [])
    assert len(vectors) == len(places) == 0


def test_records_go_in_and_vectors_come_out(encoder):
    model = build(encoder)
    vectors = encode_entities(model, ENTITIES)
    rows = row_builder(model).entities(ENTITIES)
    np.testing.assert_array_equal(vectors, encode_entity_rows(model, rows))
    streamed = list(stream_entities(model, iter(ENTITIES), len(ENTITIES), progress=False))
    np.testing.assert_array_equal(np.concatenate(streamed), vectors)
    assert vector_size(model) == vectors.shape[1] == 32


@pytest.mark.parametrize("broken", ["mention_tower", "entity_tower"])
def test_vectors_that_are_not_finite_are_never_given(encoder, broken):
    model = build(encoder)
    next(tower_module(model.get_ref(broken)).parameters()).data[:, 0] = float("nan")
    doc = spacy.blank("en")("aspirin and lithium")
    encode = {
        "mention_tower": lambda: encode_spans(model, [doc[:1]]),
        "entity_tower": lambda: encode_entities(model, ENTITIES),
    }
    message = f"The {broken.replace('_', ' ')} of pel_linker gives vectors that are not finite"
    with pytest.raises(PelError, match=message):
        encode.pop(broken)()
    (other,) = encode.values()
    assert len(other())
