"""A `transformer` pipe of spacy-transformers that lends its states to `ner` and to the linker."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from spacy.util import fix_random_seed, load_config_from_str
from tiny import SENTENCES, links, make_config, make_docs, make_examples, make_kb, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.models.bi_encoder import encode_names, encode_spans
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.lent_rows import rows_of_states
from spacy_pel.models.listener import lent_states

pytest.importorskip("spacy_transformers", reason="the extra `spacy-transformers` is not installed")

TEXTS = [text for text, _ in SENTENCES]
LISTENER = {"@architectures": "spacy_pel.TransformerListener.v1", "entity_length": 32, "precision": "fp32"}
POOLING = {"pooling": {"@layers": "reduce_mean.v1"}}
NER = {"@architectures": "spacy-transformers.TransformerListener.v1", "grad_factor": 1.0, **POOLING}
PIPES = ("transformer", "ner", "pel_linker")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def make(encoder, kb, pipes=PIPES, window=128, **model):
    """The pipeline, initialised, its Examples and an optimizer."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    spans = {"@span_getters": "spacy-transformers.strided_spans.v1", "window": window, "stride": window * 3 // 4}
    upstream = {"@architectures": "spacy-transformers.TransformerModel.v3", "name": str(encoder), "get_spans": spans}
    linker = make_config()
    linker["model"] = LISTENER | model
    configs = {"transformer": {"model": upstream}, "ner": {"model": {"tok2vec": NER}}, "pel_linker": linker}
    for name in pipes:
        nlp.add_pipe(name, config=configs[name])
    loader, kb_loader = HFEncoder(str(encoder), dropout=0.0), lambda: kb
    examples = make_examples(nlp)
    for name, pipe in nlp.pipeline:
        options = {"encoder_loader": loader, "kb_loader": kb_loader} if name == "pel_linker" else {}
        pipe.initialize(lambda: examples, nlp=nlp, **options)
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 2e-3
    return nlp, examples, optimizer


def train(nlp, examples, optimizer, steps, **options):
    """The losses of each step."""
    losses = []
    for _ in range(steps):
        losses.append({})
        nlp.update(examples, sgd=optimizer, losses=losses[-1], **options)
    return losses


def weights(nlp):
    transformer = nlp.get_pipe("transformer").model.transformer
    return {name: tensor.clone() for name, tensor in transformer.state_dict().items()}


def changed(nlp, before):
    return [name for name, tensor in weights(nlp).items() if not torch.equal(tensor, before[name])]


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    nlp, examples, optimizer = make(encoder, make_kb(folder / "kb"))
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 60)
    nlp.get_pipe("pel_linker").index(progress=False)
    nlp.to_disk(folder / "saved")
    return nlp, losses, changed(nlp, before), folder / "saved"


def test_it_learns_with_the_ner(trained):
    nlp, losses, moved, _ = trained
    for name in ("ner", "pel_linker"):
        assert losses[-1][name] < losses[0][name] / 4, name
    assert any("layer.1" in name for name in moved)
    expected = [sorted(forms.items()) for _, forms in SENTENCES]
    assert [sorted(links(doc)) for doc in nlp.pipe(TEXTS)] == expected


def test_a_batch_is_linked_like_single_documents(trained):
    nlp, _, _, _ = trained
    batch = list(nlp.pipe(TEXTS))
    alone = [nlp(text) for text in TEXTS]
    assert [links(doc) for doc in batch] == [links(doc) for doc in alone]
    for one, other in zip(batch, alone, strict=True):
        for a, b in zip(one.ents, other.ents, strict=True):
            assert [id_ for id_, _ in a._.kb_ents] == [id_ for id_, _ in b._.kb_ents]
            assert [score for _, score in a._.kb_ents] == pytest.approx([score for _, score in b._.kb_ents], abs=1e-4)


def test_it_is_read_back(trained):
    nlp, _, _, saved = trained
    expected = [[(*link, ent._.kb_ents) for link, ent in zip(links(doc), doc.ents)] for doc in map(nlp, TEXTS)]
    assert sorted(path.name for path in (saved / "pel_linker").glob("model*/mention/*")) == ["model.safetensors"]
    from_bytes = type(nlp).from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(saved), from_bytes, pickle.loads(pickle.dumps(nlp))):
        found = [[(*link, ent._.kb_ents) for link, ent in zip(links(doc), doc.ents)] for doc in map(again, TEXTS)]
        assert found == expected
        assert again.get_pipe("pel_linker").fingerprint == nlp.get_pipe("pel_linker").fingerprint


def test_what_was_read_back_learns_on(trained):
    again = spacy.load(trained[3])
    before = weights(again)
    optimizer = again.resume_training()
    optimizer.learn_rate = 1e-3
    train(again, make_examples(again), optimizer, 2, exclude=["ner"])
    assert any("layer.0" in name for name in changed(again, before))


def test_a_frozen_transformer(encoder, tmp_path):
    nlp, examples, optimizer = make(encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 60, exclude=["transformer"], annotates=["transformer"])
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 4 and not changed(nlp, before)
    with pytest.raises(PelError, match="annotating_components"):
        train(nlp, examples, optimizer, 1, exclude=["transformer"])


def test_no_gradient_of_links_with_a_factor_of_0(encoder, tmp_path):
    nlp, examples, optimizer = make(encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), grad_factor=0.0)
    optimizer.L2 = 0.0
    before = weights(nlp)
    train(nlp, examples, optimizer, 3)
    assert not changed(nlp, before)


@pytest.mark.parametrize("order", [PIPES, ("transformer", "pel_linker", "ner")], ids=["last", "not last"])
def test_a_batch_without_links_leaves_the_others_their_gradients(encoder, tmp_path, order):
    nlp, _, optimizer = make(encoder, make_kb(tmp_path / "kb"), order)
    optimizer.L2 = 0.0
    before = weights(nlp)
    docs = [nlp.make_doc(""), *make_docs(nlp, [(text, dict.fromkeys(forms, "NIL")) for text, forms in SENTENCES])]
    losses = train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], optimizer, 3)
    assert [one["pel_linker"] for one in losses] == [0.0] * 3 and changed(nlp, before)


def test_the_transformer_gets_the_gradient_of_the_mean_over_the_mentions(tmp_path):
    encoder = write_encoder(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    nlp, examples, _ = make(encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), grad_factor=0.5)
    pipe, tower = nlp.get_pipe("transformer"), nlp.get_pipe("pel_linker").model.get_ref("mention_tower")
    spans = [span for eg in examples for span in (eg.predicted[0:2], eg.predicted[1:4])]
    d_vectors = np.random.default_rng(0).normal(size=(len(spans), 32)).astype("float32")

    pipe.update(examples)
    with lent_states(nlp.get_pipe("pel_linker").model, [eg.predicted for eg in examples]):
        vectors, backprop = tower.begin_update(rows_of_states(spans))
        backprop(d_vectors)
    assert all(eg.predicted._.trf_data is None for eg in examples)
    parameters = dict(pipe.model.transformer.named_parameters())
    found = {name: one.grad.clone() for name, one in parameters.items() if one.grad is not None}

    pipe.model.transformer.zero_grad()
    tokenizer, expected = pipe.model.tokenizer, []
    for span in spans:
        encoded = tokenizer(span.doc.text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0]
        own = (offsets[:, 1] > span.start_char) & (offsets[:, 0] < span.end_char)
        expected.append(pipe.model.transformer(**encoded).last_hidden_state[0][own].mean(0))
    expected = torch.nn.functional.normalize(torch.stack(expected), dim=-1)
    assert vectors == pytest.approx(expected.detach().numpy(), abs=1e-5)
    (0.5 * (expected * torch.from_numpy(d_vectors)).sum() / len(spans)).backward()
    assert len(found) > 20
    for name, gradient in found.items():
        assert torch.allclose(gradient, parameters[name].grad, atol=1e-5), name


CONFIG = """
[nlp]
lang = "en"
pipeline = ["transformer", "pel_linker"]

[components]

[components.transformer]
{transformer}

[components.pel_linker]
factory = "pel_linker"

[components.pel_linker.model]
@architectures = "spacy_pel.TransformerListener.v1"
entity_length = 32

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = "{folder}/train.spacy"

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = "{folder}/train.spacy"

[training]
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
seed = 0
gpu_allocator = null
max_steps = 12
eval_frequency = 6
frozen_components = {frozen}
annotating_components = {frozen}

[training.optimizer]
@optimizers = "spacy_pel.AdamW.v1"
learn_rate = 0.003

[training.score_weights]
nel_recall_at_1 = 1.0

[initialize]

[initialize.components]

[initialize.components.pel_linker]

[initialize.components.pel_linker.encoder_loader]
@misc = "spacy_pel.HFEncoder.v1"
name = "{encoder}"

[initialize.components.pel_linker.kb_loader]
@misc = "spacy_pel.KBFromDisk.v1"
path = "{folder}/kb"
"""
NEW = """factory = "transformer"

[components.transformer.model]
@architectures = "spacy-transformers.TransformerModel.v3"
name = "{encoder}"
"""


@pytest.mark.parametrize("frozen", [False, True], ids=["joint", "frozen"])
def test_spacy_train(trained, encoder, tmp_path, frozen):
    make_kb(tmp_path / "kb")
    write_docs(tmp_path / "train.spacy", make_docs(spacy.blank("en")))
    transformer = f'source = "{trained[3]}"' if frozen else NEW.format(encoder=encoder)
    names = '["transformer"]' if frozen else "[]"
    config = CONFIG.format(folder=tmp_path, encoder=encoder, transformer=transformer, frozen=names)
    nlp = init_nlp(load_config_from_str(config))
    before = weights(nlp)
    (tmp_path / "out").mkdir()
    train_nlp(nlp, tmp_path / "out")
    assert bool(changed(nlp, before)) != frozen
    meta = json.loads((tmp_path / "out" / "model-last" / "meta.json").read_text())
    assert meta["performance"]["nel_recall_at_64"] == 1
    again = spacy.load(tmp_path / "out" / "model-last")
    again.get_pipe("pel_linker").index(progress=False)
    assert evaluate(again, make_docs(again))["recall_at_1"] == meta["performance"]["nel_recall_at_1"]


def test_vectors_are_means_of_states_behind_the_projection(encoder, tmp_path):
    nlp, _, _ = make(encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), window=4)
    linker = nlp.get_pipe("pel_linker")
    projection = tower_module(linker.model.get_ref("mention_tower")).linear
    assert torch.equal(projection.weight, torch.eye(32)) and not projection.bias.any()
    with torch.no_grad():
        projection.weight.copy_(torch.randn(32, 32))
    docs = list(nlp.get_pipe("transformer").pipe(nlp.make_doc(text) for text in TEXTS))
    spans = [doc[i : i + 3] for doc in docs for i in range(len(doc) - 2)]
    vectors, places = encode_spans(linker.model, spans)
    for span, place in zip(spans, places):
        data = span.doc._.trf_data
        pieces = {int(i) for i in data.align[span.start : span.end].dataXd.reshape(-1)}
        mean = data.model_output.last_hidden_state.reshape(-1, 32)[sorted(pieces)].mean(0)
        expected = projection.weight.detach().numpy() @ mean
        assert vectors[place] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)


def test_another_size_of_states(tmp_path):
    wide = write_encoder(tmp_path / "wide", hidden_size=48)
    nlp, examples, optimizer = make(wide, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    linker = nlp.get_pipe("pel_linker")
    small = HFEncoder(str(write_encoder(tmp_path / "small")), dropout=0.0)
    linker.initialize(lambda: examples, nlp=nlp, encoder_loader=small)
    projection = tower_module(linker.model.get_ref("mention_tower")).linear
    assert projection.weight.shape == (32, 48)
    assert torch.allclose(projection.weight @ projection.weight.T, torch.eye(32), atol=1e-5)
    losses = train(nlp, examples, optimizer, 30)
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 2


def test_mentions_of_other_tokens_are_found_in_the_predicted_doc(encoder, tmp_path):
    nlp, _, _ = make(encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    docs = make_docs(nlp)
    with docs[0].retokenize() as retokenizer:
        retokenizer.merge(docs[0][0:2])
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    losses = {}
    nlp.update(examples, sgd=False, losses=losses)
    assert losses["pel_linker"] > 0
    scores = nlp.evaluate(examples)
    assert 0 <= scores["nel_recall_at_1"] <= scores["nel_recall_at_64"] == 1


def test_gold_docs_are_read_by_the_transformer_when_they_are_measured(trained, tmp_path):
    nlp, _, _, saved = trained
    assert evaluate(nlp, make_docs(nlp))["recall_at_1"] == 1
    with pytest.raises(PelError, match=r'nlp.get_pipe\("transformer"\).pipe'):
        nlp.get_pipe("pel_linker").tune_nil(make_docs(nlp))
    (text, forms), *others = SENTENCES
    write_docs(tmp_path / "dev.spacy", make_docs(nlp, [(text, dict.fromkeys(forms, "NIL")), *others]))
    spacy.load(saved).to_disk(tmp_path / "saved")

    def run(*command):
        result = CliRunner().invoke(pel_app, [*map(str, command)])
        assert result.exit_code == 0, result.output
        return result.output

    for command in ("evaluate", "tune-lexical", "tune-nil"):
        run(command, tmp_path / "saved", tmp_path / "dev.spacy")
    assert "D008094" in run("kb", "search", tmp_path / "saved", "Lithium", "--context", TEXTS[1])
    run("verify", tmp_path / "saved")


def test_names_have_no_transformer(trained):
    linker = trained[0].get_pipe("pel_linker")
    with pytest.raises(PelError, match="Names of a KB"):
        encode_names(linker.model, ["aspirin"])
    with pytest.raises(PelError, match="Names of a KB"):
        linker.tune_nil()
    for vectors in ("names", "both"):
        with pytest.raises(PelError, match="Names of a KB"):
            linker.vectors = vectors
    assert linker.vectors == "entity"


def test_it_goes_into_another_pipeline_with_its_transformer(trained):
    nlp, other = trained[0], spacy.blank("en")
    for name in ("transformer", "pel_linker"):
        other.add_pipe(name, source=nlp)
    before, after = (pipeline.get_pipe("pel_linker") for pipeline in (nlp, other))
    after.set_kb(before.kb)
    spans = [
        next(pipeline.get_pipe("transformer").pipe([pipeline.make_doc(TEXTS[0])]))[:2] for pipeline in (nlp, other)
    ]
    vectors = [encode_spans(linker.model, [span]) for linker, span in zip((before, after), spans, strict=True)]
    np.testing.assert_allclose(vectors[0][0], vectors[1][0], atol=1e-6)


def test_without_spacy_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy_transformers.layers", None)
    with pytest.raises(PelError, match=r'python -m pip install "spacy-pel\[spacy-transformers\]"'):
        spacy.blank("en").add_pipe("pel_linker", config={"model": LISTENER})


def test_without_a_transformer(encoder, tmp_path):
    with pytest.raises(PelError, match=r"finds no transformer pipe .* a frozen one needs a `source`"):
        make(encoder, make_kb(tmp_path / "kb"), ("pel_linker",))


def test_a_doc_that_was_not_read_or_has_other_tokens_now(trained):
    nlp = trained[0]
    doc = nlp.make_doc(TEXTS[0])
    with pytest.raises(PelError, match="not read by the transformer pipe"):
        encode_spans(nlp.get_pipe("pel_linker").model, [doc[:2]])
    doc = nlp(TEXTS[0])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.raises(PelError, match="merges or splits tokens"):
        encode_spans(nlp.get_pipe("pel_linker").model, [doc[:2]])
