"""A transformer pipe, of either package, that lends its states to `ner` and to the linker."""

from __future__ import annotations

import json
import pickle
import re
import sys

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from spacy.util import fix_random_seed, load_config_from_str, registry
from tiny import SENTENCES, links, make_config, make_docs, make_examples, make_kb, write_encoder
from transformer_pipes import PACKAGES, CuratedTransformers, SpacyTransformers
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.models.encoder import has_encoder, tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.encoding import UNREADABLE, encode_names, encode_spans
from spacy_pel.models.lent_rows import rows_of_states
from spacy_pel.models.listener import lent_states

TEXTS = [text for text, _ in SENTENCES]
LISTENER = {"@architectures": "spacy_pel.TransformerListener.v1", "entity_length": 32, "precision": "fp32"}
PIPES = ("transformer", "ner", "pel_linker")


def skip_without(package):
    pytest.importorskip(package.module, reason=f"{package.module} is not installed")


@pytest.fixture(scope="module", params=PACKAGES, ids=lambda package: package.factory)
def package(request):
    skip_without(request.param)
    return request.param


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def make(package, encoder, kb, pipes=PIPES, window=128, initialised=True, transformer=None, **model):
    """The pipeline, initialised, its Examples and an optimizer."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    add_transformer(nlp, package, encoder, window=window, **transformer or {})
    configs = {"ner": {"model": {"tok2vec": package.ner}}, "pel_linker": make_config()}
    configs["pel_linker"]["model"] = LISTENER | model
    for name in pipes[1:]:
        nlp.add_pipe(name, config=configs[name])
    examples = make_examples(nlp)
    loaders = {
        "transformer": registry.resolve(package.loaders(encoder)),
        "pel_linker": {"encoder_loader": HFEncoder(str(encoder), dropout=0.0), "kb_loader": lambda: kb},
    }
    for name in pipes if initialised else pipes[1:]:
        nlp.get_pipe(name).initialize(lambda: examples, nlp=nlp, **loaders.get(name, {}))
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 2e-3
    return nlp, examples, optimizer


def add_transformer(nlp, package, encoder, name="transformer", window=128, **settings):
    model = package.model(encoder, window)
    return nlp.add_pipe(package.factory, name, config={"model": model, **settings})


def train(nlp, examples, optimizer, steps, **options):
    """The losses of each step."""
    losses = []
    for _ in range(steps):
        losses.append({})
        nlp.update(examples, sgd=optimizer, losses=losses[-1], **options)
    return losses


def weights(nlp):
    factory = nlp.get_pipe_meta("transformer").factory
    package = next(package for package in PACKAGES if package.factory == factory)
    state = package.module_of(nlp.get_pipe("transformer")).state_dict()
    return {name: tensor.clone() for name, tensor in state.items()}


def changed(nlp, before):
    return [name for name, tensor in weights(nlp).items() if not torch.equal(tensor, before[name])]


@pytest.fixture(scope="module")
def trained(package, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    nlp, examples, optimizer = make(package, encoder, make_kb(folder / "kb"))
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 60)
    nlp.get_pipe("pel_linker").index(progress=False)
    nlp.to_disk(folder / "saved")
    return nlp, losses, changed(nlp, before), folder / "saved"


def test_it_learns_with_the_ner(trained):
    nlp, losses, moved, _ = trained
    for name in ("ner", "pel_linker"):
        assert losses[-1][name] < losses[0][name] / 4, name
    assert any(re.search(r"layers?\.1\.", name) for name in moved)
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
    loaded = spacy.load(saved)  # a new curated pipe does not pickle, for its loaders
    for again in (loaded, from_bytes, pickle.loads(pickle.dumps(loaded))):
        found = [[(*link, ent._.kb_ents) for link, ent in zip(links(doc), doc.ents)] for doc in map(again, TEXTS)]
        assert found == expected
        assert again.get_pipe("pel_linker").fingerprint == nlp.get_pipe("pel_linker").fingerprint


def test_what_was_read_back_learns_on(trained):
    again = spacy.load(trained[3])
    before = weights(again)
    optimizer = again.resume_training()
    optimizer.learn_rate = 1e-3
    train(again, make_examples(again), optimizer, 2, exclude=["ner"])
    assert any(re.search(r"layers?\.0\.", name) for name in changed(again, before))


def test_what_was_read_into_a_pipeline_learns_on(trained):
    *_, saved = trained
    nlp = spacy.load(saved)
    nlp.get_pipe("pel_linker").from_disk(saved / "pel_linker")
    before, optimizer = weights(nlp), nlp.resume_training()
    optimizer.learn_rate = 1e-3
    train(nlp, make_examples(nlp), optimizer, 2, exclude=["ner"])
    assert any(re.search(r"layers?\.0\.", name) for name in changed(nlp, before))


def test_a_linker_that_goes_on_from_it_has_its_projection_and_its_entity_tower(trained, package, encoder, tmp_path):
    nlp, _, _, saved = trained
    again, examples, _ = make(package, encoder, make_kb(tmp_path / "kb"))
    own, linker = (one.get_pipe("pel_linker") for one in (again, nlp))
    assert own.mention_fingerprint != linker.mention_fingerprint
    loader = HFEncoder(str(saved / "pel_linker"), dropout=0.0)
    own.initialize(lambda: examples, nlp=again, encoder_loader=loader)
    assert (own.mention_fingerprint, own.fingerprint) == (linker.mention_fingerprint, linker.fingerprint)


def test_a_projection_of_other_states_is_not_taken(trained, package, encoder, tmp_path):
    other = write_encoder(tmp_path / "wide", hidden_size=64)
    nlp, examples, _ = make(package, other, make_kb(tmp_path / "kb"))
    loader = HFEncoder(str(trained[3] / "pel_linker"), dropout=0.0)
    with pytest.warns(UserWarning, match="has a linear layer for states of 32 dimensions, not 64: new ones are"):
        nlp.get_pipe("pel_linker").initialize(lambda: examples, nlp=nlp, encoder_loader=loader)


def test_a_frozen_transformer(package, encoder, tmp_path):
    nlp, examples, optimizer = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 60, exclude=["transformer"], annotates=["transformer"])
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 4 and not changed(nlp, before)
    with pytest.raises(PelError, match="annotating_components"):
        train(nlp, examples, optimizer, 1, exclude=["transformer"])


def test_no_gradient_of_links_with_a_factor_of_0(package, encoder, tmp_path):
    nlp, examples, optimizer = make(
        package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), grad_factor=0.0
    )
    optimizer.L2 = 0.0
    before = weights(nlp)
    train(nlp, examples, optimizer, 3)
    assert not changed(nlp, before)


@pytest.mark.parametrize("order", [PIPES, ("transformer", "pel_linker", "ner")], ids=["last", "not last"])
def test_a_batch_without_links_leaves_the_others_their_gradients(package, encoder, tmp_path, order):
    nlp, _, optimizer = make(package, encoder, make_kb(tmp_path / "kb"), order)
    optimizer.L2 = 0.0
    before = weights(nlp)
    docs = [nlp.make_doc(""), *make_docs(nlp, [(text, dict.fromkeys(forms, "NIL")) for text, forms in SENTENCES])]
    losses = train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], optimizer, 3)
    assert [one["pel_linker"] for one in losses] == [0.0] * 3 and changed(nlp, before)


def test_the_transformer_gets_the_gradient_of_the_mean_over_the_mentions(package, tmp_path):
    encoder = write_encoder(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    nlp, examples, _ = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), grad_factor=0.5)
    pipe, tower = nlp.get_pipe("transformer"), nlp.get_pipe("pel_linker").model.get_ref("mention_tower")
    spans = [span for eg in examples for span in (eg.predicted[0:2], eg.predicted[1:4])]
    d_vectors = np.random.default_rng(0).normal(size=(len(spans), 32)).astype("float32")

    pipe.update(examples)
    with lent_states(nlp.get_pipe("pel_linker").model, [eg.predicted for eg in examples]):
        vectors, backprop = tower.begin_update(rows_of_states(spans))
        backprop(d_vectors)
    assert all(eg.predicted._.trf_data is None for eg in examples)
    module = package.module_of(pipe)
    parameters = dict(module.named_parameters())
    found = {name: one.grad.clone() for name, one in parameters.items() if one.grad is not None}

    module.zero_grad()
    expected = torch.stack([package.computed(pipe, span).mean(0) for span in spans])
    expected = torch.nn.functional.normalize(expected, dim=-1)
    assert vectors == pytest.approx(expected.detach().numpy(), abs=1e-5)
    (0.5 * (expected * torch.from_numpy(d_vectors)).sum() / len(spans)).backward()
    assert len(found) > 20
    for name, gradient in found.items():
        assert torch.allclose(gradient, parameters[name].grad, atol=1e-5), name


def test_a_transformer_that_has_read_other_docs(package, encoder, tmp_path):
    nlp, examples, _ = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    nlp.get_pipe("transformer").update(examples[:2])
    others = [eg.predicted for eg in examples[2:]]
    with (
        pytest.raises(PelError, match="The transformer pipe that pel_linker listens to has read other Docs"),
        lent_states(nlp.get_pipe("pel_linker").model, others),
    ):
        pytest.fail("it has lent states of these")


CONFIG = """
[nlp]
lang = "en"
pipeline = ["transformer", "pel_linker"]

[components]

[components.transformer]

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


@pytest.mark.parametrize("frozen", [False, True], ids=["joint", "frozen"])
def test_spacy_train(package, trained, encoder, tmp_path, frozen):
    make_kb(tmp_path / "kb")
    write_docs(tmp_path / "train.spacy", make_docs(spacy.blank("en")))
    names = '["transformer"]' if frozen else "[]"
    config = load_config_from_str(CONFIG.format(folder=tmp_path, encoder=encoder, frozen=names))
    if frozen:
        config["components"]["transformer"] = {"source": str(trained[3])}
    else:
        config["components"]["transformer"] = {"factory": package.factory, "model": package.model(encoder, 128)}
        config["initialize"]["components"]["transformer"] = package.loaders(encoder)
    nlp = init_nlp(config)
    before = weights(nlp)
    (tmp_path / "out").mkdir()
    train_nlp(nlp, tmp_path / "out")
    assert bool(changed(nlp, before)) != frozen
    meta = json.loads((tmp_path / "out" / "model-last" / "meta.json").read_text())
    assert meta["performance"]["nel_recall_at_64"] == 1
    again = spacy.load(tmp_path / "out" / "model-last")
    again.get_pipe("pel_linker").index(progress=False)
    assert evaluate(again, make_docs(again))["recall_at_1"] == meta["performance"]["nel_recall_at_1"]


def test_vectors_are_means_of_states_behind_the_projection(package, encoder, tmp_path):
    nlp, _, _ = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), window=4)
    linker = nlp.get_pipe("pel_linker")
    projection = tower_module(linker.model.get_ref("mention_tower")).linear
    assert torch.equal(projection.weight, torch.eye(32)) and not projection.bias.any()
    with torch.no_grad():
        projection.weight.copy_(torch.randn(32, 32))
    texts = [*TEXTS, "Unheard-of  words\n have several word pieces."]
    docs = list(nlp.get_pipe("transformer").pipe(nlp.make_doc(text) for text in texts))
    spans = [doc[i : i + 3] for doc in docs for i in range(len(doc) - 2)]
    vectors, places = encode_spans(linker.model, spans)
    for span, place in zip(spans, places):
        expected = projection.weight.detach().numpy() @ package.pieces(span).mean(0).numpy()
        assert vectors[place] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    (blank,) = [token.i for token in docs[-1] if token.text == "\n "]
    assert encode_spans(linker.model, [docs[-1][blank : blank + 1]])[1].tolist() == [UNREADABLE]


def test_both_packages_give_the_same_vectors(encoder, tmp_path):
    vectors = []
    for package in PACKAGES:
        skip_without(package)
        nlp, _, _ = make(package, encoder, make_kb(tmp_path / package.factory), ("transformer", "pel_linker"))
        (doc,) = nlp.get_pipe("transformer").pipe([nlp.make_doc("She took unheard-of pills .")])
        vectors.append(encode_spans(nlp.get_pipe("pel_linker").model, [doc[1:3], doc[2:5]])[0])
    np.testing.assert_allclose(*vectors, atol=1e-6)


def test_another_size_of_states(package, tmp_path):
    wide = write_encoder(tmp_path / "wide", hidden_size=48)
    nlp, examples, optimizer = make(package, wide, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    linker = nlp.get_pipe("pel_linker")
    small = HFEncoder(str(write_encoder(tmp_path / "small")), dropout=0.0)
    linker.initialize(lambda: examples, nlp=nlp, encoder_loader=small)
    projection = tower_module(linker.model.get_ref("mention_tower")).linear
    assert projection.weight.shape == (32, 48)
    assert torch.allclose(projection.weight @ projection.weight.T, torch.eye(32), atol=1e-5)
    losses = train(nlp, examples, optimizer, 30)
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 2


def test_mentions_of_other_tokens_are_found_in_the_predicted_doc(package, encoder, tmp_path):
    nlp, _, _ = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
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


def test_frozen_by_the_curated_pipe_itself(encoder, tmp_path):
    skip_without(CuratedTransformers)
    nlp, examples, optimizer = make(
        CuratedTransformers, encoder, make_kb(tmp_path / "kb"), transformer={"frozen": True}
    )
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 60)
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 4 and not changed(nlp, before)


def test_a_curated_pipe_that_lends_all_layers(encoder, tmp_path):
    skip_without(CuratedTransformers)
    nlp, examples, optimizer = make(
        CuratedTransformers, encoder, make_kb(tmp_path / "kb"), transformer={"all_layer_outputs": True}
    )
    before = weights(nlp)
    losses = train(nlp, examples, optimizer, 30)
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 2 and changed(nlp, before)


def test_only_the_package_of_its_pipe_is_needed(package, encoder, tmp_path, monkeypatch):
    for other in PACKAGES:
        if other is not package:
            monkeypatch.setitem(sys.modules, other.hidden, None)
    nlp, examples, optimizer = make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"))
    before = weights(nlp)
    train(nlp, examples, optimizer, 2)
    assert changed(nlp, before)


def test_without_the_packages(monkeypatch):
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package.hidden, None)
    with pytest.raises(
        PelError, match=r"spacy-pel\[spacy-transformers\].* curated_transformer .*\[curated-transformers"
    ):
        spacy.blank("en").add_pipe("pel_linker", config={"model": LISTENER})


def test_without_a_transformer(package, encoder, tmp_path):
    with pytest.raises(PelError, match=r"upstream = 'other'\) finds no transformer pipe: put one of that name before"):
        make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), upstream="other")


def test_a_transformer_that_is_not_initialised(package, encoder, tmp_path):
    with pytest.raises(PelError, match=r"'transformer', which is not initialised: .* frozen pipe needs a `source`"):
        make(package, encoder, make_kb(tmp_path / "kb"), ("transformer", "pel_linker"), initialised=False)


def test_two_transformers(encoder, tmp_path):
    for package in PACKAGES:
        skip_without(package)
    kb = make_kb(tmp_path / "kb")
    nlp, examples, optimizer = make(SpacyTransformers, encoder, kb, ("transformer",))
    curated = add_transformer(nlp, CuratedTransformers, encoder, "curated")
    curated.initialize(lambda: examples, nlp=nlp, **registry.resolve(CuratedTransformers.loaders(encoder)))
    loaders = {"encoder_loader": HFEncoder(str(encoder), dropout=0.0), "kb_loader": lambda: kb}
    linker = nlp.add_pipe("pel_linker", config={"model": LISTENER})
    with pytest.raises(
        PelError, match=r"upstream = '\*'\) finds several transformer pipes: transformer, curated\. Name"
    ):
        linker.initialize(lambda: examples, nlp=nlp, **loaders)
    nlp.remove_pipe("pel_linker")
    first = nlp.add_pipe("pel_linker", config={"model": LISTENER | {"upstream": "transformer"}})
    with pytest.raises(PelError, match="would read the states of 'curated', which stands between 'transformer' and"):
        first.initialize(lambda: examples, nlp=nlp, **loaders)
    nlp.remove_pipe("pel_linker")
    before = nlp.add_pipe("pel_linker", config={"model": LISTENER | {"upstream": "transformer"}}, before="curated")
    before.initialize(lambda: examples, nlp=nlp, **loaders)
    nlp.remove_pipe("pel_linker")
    nlp.add_pipe("pel_linker", config=make_config() | {"model": LISTENER | {"upstream": "curated"}})
    nlp.get_pipe("pel_linker").initialize(lambda: examples, nlp=nlp, **loaders)
    losses = train(nlp, examples, optimizer, 30)
    assert losses[-1]["pel_linker"] < losses[0]["pel_linker"] / 2


def test_states_of_another_width(trained, package, tmp_path):
    nlp, wide = trained[0], write_encoder(tmp_path / "wide", hidden_size=48)
    other, _, _ = make(package, wide, None, ("transformer",))
    (doc,) = other.get_pipe("transformer").pipe([nlp.make_doc(TEXTS[0])])
    with pytest.raises(PelError, match="states of other than 32 dimensions"):
        encode_spans(nlp.get_pipe("pel_linker").model, [doc[:2]])


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


def test_a_ranker_is_trained_behind_it(package, encoder, tmp_path):
    nlp, examples, optimizer = make(package, encoder, make_kb(tmp_path / "kb"), pipes=("transformer", "pel_linker"))
    train(nlp, examples, optimizer, 5)
    nlp.get_pipe("pel_linker").index(progress=False)
    model = {"@architectures": "spacy_pel.CrossEncoder.v1", "mention_length": 24, "entity_length": 24}
    ranker = nlp.add_pipe("pel_ranker", config={"top_n": 6, "model": model, "adversarial": None})
    kept = tmp_path / "candidates.jsonl"
    with pytest.raises(PelError, match=re.escape("[initialize.components.pel_ranker]: candidates = ")):
        ranker.initialize(lambda: examples, nlp=nlp, candidates=kept)
    assert not has_encoder(ranker.model), "what is refused changes nothing"
    ranker.initialize(lambda: examples, nlp=nlp, encoder_loader=HFEncoder(str(encoder), dropout=0.0))
    losses = []
    for _ in range(12):
        losses.append({})
        nlp.update(
            make_examples(nlp),
            sgd=optimizer,
            losses=losses[-1],
            annotates=["transformer", "pel_linker"],
            exclude=["transformer", "pel_linker"],
        )
    assert losses[-1]["pel_ranker"] < losses[0]["pel_ranker"] and not kept.exists()
    assert {len(ent._.kb_ents) for doc in nlp.pipe(make_docs(nlp)) for ent in doc.ents} == {5}
