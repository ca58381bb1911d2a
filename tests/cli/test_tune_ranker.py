"""A ranker by the command line alone: `spacy train` behind a frozen linker, `tune-ranker`, `evaluate`, `link`."""

from __future__ import annotations

import fcntl
import json
import shutil

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import DocBin
from spacy.util import load_config, load_model_from_config
from thinc.api import Config
from tiny import ENTITIES, SENTENCES, make_docs, make_examples, make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner
from warm import run_python

from spacy_pel.cli import pel_app
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.cross_encoder import pair_tower
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.pipeline.candidates import KeptCandidates
from spacy_pel.pipeline.ranking import scores_of
from spacy_pel.training.distillation import mention_key

CONFIG = """
[nlp]
lang = "en"
pipeline = ["pel_linker","pel_ranker"]

[components]

[components.pel_linker]
source = "{folder}/linker"

[components.pel_ranker]
factory = "pel_ranker"
top_n = 6
adversarial = null

[components.pel_ranker.model]
@architectures = "spacy_pel.CrossEncoder.v1"
mention_length = 24
entity_length = 24
precision = "fp32"

[corpora]

[corpora.train]
@readers = "spacy_pel.MentionCorpus.v1"
path = "{folder}/train.spacy"

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = "{folder}/train.spacy"

[training]
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
frozen_components = ["pel_linker"]
annotating_components = ["pel_linker"]
max_steps = 200
seed = 0
gpu_allocator = null
eval_frequency = 100

[training.batcher]
@batchers = "spacy_pel.batch_by_mentions.v1"
size = 6

[training.optimizer]
@optimizers = "spacy_pel.AdamW.v1"
learn_rate = 0.003

[training.score_weights]
nel_recall_at_1 = 1.0
nel_recall_at_64 = 0.0

[initialize]

[initialize.components]

[initialize.components.pel_ranker]
candidates = "{folder}/candidates.jsonl"

[initialize.components.pel_ranker.encoder_loader]
@misc = "spacy_pel.HFEncoder.v1"
name = "{folder}/encoder"
dropout = 0.0
"""


def pel(*arguments):
    return CliRunner().invoke(pel_app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranker")
    encoder = write_encoder(folder / "encoder")
    nlp, linker, _, _ = make_pipeline(encoder, make_kb(folder / "kb"), top_k=12, lexical=None, max_candidates=3)
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    DocBin(docs=make_docs(nlp)).to_disk(folder / "train.spacy")
    nil = [(text, dict.fromkeys(mentions, "NIL")) for text, mentions in SENTENCES]
    DocBin(docs=make_docs(nlp, [*SENTENCES * 4, *nil * 2])).to_disk(folder / "dev.spacy")
    (folder / "ranker.cfg").write_text(CONFIG.format(folder=folder.as_posix()))
    done = run_python("-m", "spacy", "train", folder / "ranker.cfg", "--output", folder / "training")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOSS PEL_R" in done.stdout and (folder / "candidates.jsonl").exists()
    return folder


def test_from_training_to_links(folder):
    trained = folder / "training" / "model-last"
    linker, ranked = folder / "linker.json", folder / "ranked.json"
    for pipeline, file in ((folder / "linker", linker), (trained, ranked)):
        assert pel("evaluate", pipeline, folder / "train.spacy", "--output", file).exit_code == 0
    before, after = (json.loads(file.read_text()) for file in (linker, ranked))
    assert before["recall_at_1"] < after["recall_at_1"] and before["recall_at_64"] == after["recall_at_64"]
    assert after["reliability"] == []  # no probabilities yet

    result = pel("tune-ranker", trained, folder / "dev.spacy", "--cost")
    assert result.exit_code == 0 and "run `tune-nil` first" in result.output
    assert pel("tune-nil", trained, folder / "dev.spacy").exit_code == 0
    result = pel("tune-ranker", trained, folder / "dev.spacy", "--cost", "--gain", "0.9")
    assert result.exit_code == 0, result.output
    assert "recall_at_1 by both" in result.output and "Ranked anew" in result.output
    ranker = spacy.load(trained).get_pipe("pel_ranker")
    assert ranker.tuned.weight > 0 and ranker.tuned.gives_probabilities and ranker.tuned.rerank_below is not None
    assert pel("evaluate", trained, folder / "dev.spacy", "--output", ranked).exit_code == 0
    after = json.loads(ranked.read_text())
    assert after["reliability"] and after["nil_threshold"] == ranker.threshold is not None

    out = folder / "links.jsonl"
    source = folder / "texts.jsonl"
    ents = [{"start": 9, "end": 16}]
    source.write_text(json.dumps({"text": "She took aspirin after the heart attack .", "ents": ents}) + "\n")
    assert pel("link", trained, source, out).exit_code == 0
    (ent,) = json.loads(out.read_text())["ents"]
    assert len(ent["kb_ents"]) == 3 and 0 < ent["kb_prob"] < 1


def test_a_linker_is_trained_towards_what_the_ranker_says(folder):
    targets = folder / "targets.jsonl"
    result = pel("distil", folder / "training" / "model-last", folder / "train.spacy", targets, "--top-n", "4")
    assert result.exit_code == 0 and "Wrote what the ranker scores of" in result.output, result.output
    lines = [json.loads(line) for line in targets.read_text().splitlines()]
    assert lines and {len(line["ids"]) for line in lines} == {len(line["scores"]) for line in lines} == {4}
    ranker = spacy.load(folder / "training" / "model-last").get_pipe("pel_ranker")
    docs = make_docs(spacy.blank("en"))
    (span, *_) = docs[0].ents
    (link,) = ranker.linker.links(ranker.linker.find([span], 4))
    (scores,) = scores_of(ranker, [span], [link])
    (line,) = (line for line in lines if line["mention"] == mention_key(span))
    theirs = np.array([score for _, score in link.candidates])
    np.testing.assert_allclose(line["scores"], scores[:4] + ranker.tuned.weight * theirs, atol=1e-3)

    config = Config().from_disk(folder / "linker" / "config.cfg", interpolate=False)
    config["components"]["pel_linker"]["distillation"] = {"@misc": "spacy_pel.Distillation.v1", "path": str(targets)}
    nlp = load_model_from_config(config)
    towers = HFEncoder(str(folder / "linker" / "pel_linker"), dropout=0.0)
    linker, kb = nlp.get_pipe("pel_linker"), KnowledgeBase(folder / "kb")
    linker.initialize(lambda: make_examples(nlp), nlp=nlp, encoder_loader=towers, kb_loader=lambda: kb)
    was = spacy.load(folder / "linker").get_pipe("pel_linker")
    assert linker.fingerprints == was.fingerprints  # the towers that were trained
    assert nlp.update(make_examples(nlp), sgd=nlp.resume_training())["pel_linker"] > 0
    assert np.isfinite(linker.session.latest_batch.targets).any()


def test_candidates_by_another_linker_are_what_a_ranker_learns_from(folder, tmp_path, monkeypatch):
    """The file has them under the linker of the config, which then searches for none of these mentions."""
    file, half = tmp_path / "candidates.jsonl", tmp_path / "half.spacy"
    options = ("--initialize.components.pel_ranker.candidates", file, "--corpora.train.path", half)
    shutil.copytree(folder / "linker", tmp_path / "copy")
    other = spacy.load(tmp_path / "copy")
    linker = other.get_pipe("pel_linker")
    with torch.no_grad():
        for weight in tower_module(linker.model.get_ref("mention_tower")).parameters():
            weight += 0.3 * torch.randn_like(weight)
    linker.set_model(linker.model)
    linker.index(progress=False)
    other.to_disk(tmp_path / "other")
    docs = make_docs(other)
    DocBin(docs=docs[:2]).to_disk(half)
    config = folder / "ranker.cfg"
    for words in ("of 4 mentions", "4 mentions have candidates"):
        found = pel("candidates", config, tmp_path / "other", *options)
        assert found.exit_code == 0 and words in " ".join(found.output.split()), found.output

    nlp = load_model_from_config(load_config(config), auto_fill=True)
    nlp._link_components()
    ranker, own = nlp.get_pipe("pel_ranker"), nlp.get_pipe("pel_linker")
    monkeypatch.setattr(type(own), "find", lambda *_, **__: pytest.fail("the ranker's own linker was asked"))
    corpus = MentionCorpus(half)(nlp)
    mentions = [one for eg in corpus for one in gold_mentions(eg.reference)]
    kept = KeptCandidates(own, 6, file).of(mentions)
    monkeypatch.undo()
    spans = [one.span for one in mentions]
    assert [one.ids for one in kept] == [one.ids for one in linker.find(spans, 6)]
    assert [one.ids for one in kept] != [one.ids for one in own.find(spans, 6)] and ranker.linker is own

    DocBin(docs=docs[2:3]).to_disk(half)
    (example, *_) = MentionCorpus(half)(nlp)
    missing = gold_mentions(example.reference)
    before = file.read_bytes()
    with pytest.warns(
        UserWarning, match="lacks candidates of mentions that are trained on: pel_linker finds these itself"
    ):
        assert KeptCandidates(own, 6, file).of(missing)[0].ids == own.find([missing[0].span], 6)[0].ids
    assert file.read_bytes() == before
    assert pel("candidates", config, tmp_path / "other", *options).exit_code == 0
    assert file.read_bytes().startswith(before) and len(file.read_bytes()) > len(before)
    assert KeptCandidates(own, 6, file).of(missing)[0].ids == linker.find([missing[0].span], 6)[0].ids
    with pytest.raises(PelError, match=r"another linker found for pel_linker as it was, or for a lower top_n"):
        KeptCandidates(own, 7, file)
    for by, more, said in (
        (folder / "linker", options, "its linker is the one that is ranked behind"),
        (tmp_path / "other", (), "a training has filled it"),
    ):
        result = pel("candidates", config, by, *more)
        assert result.exit_code == 1 and said in " ".join(result.output.split()), result.output
    before = file.read_bytes()
    with file.open() as open_elsewhere:
        fcntl.flock(open_elsewhere, fcntl.LOCK_EX)
        result = pel("candidates", config, tmp_path / "other", *options)
    assert result.exit_code == 1 and "another process finds candidates for it" in " ".join(result.output.split())
    assert file.read_bytes() == before


def test_candidates_of_a_config_and_a_linker_that_do_not_go_together(folder, tmp_path):
    plain = tmp_path / "plain.cfg"
    plain.write_text((folder / "ranker.cfg").read_text().replace("candidates = ", "# "))
    result = pel("candidates", plain, folder / "linker")
    assert result.exit_code == 1 and "plain.cfg: name the file that they go to" in " ".join(result.output.split())
    result = pel("candidates", tmp_path / "none.cfg", folder / "linker")
    assert result.exit_code == 1 and "none.cfg is no file: name the config" in " ".join(result.output.split())
    nlp, linker, _, _ = make_pipeline(folder / "encoder", make_kb(tmp_path / "kb", ENTITIES[:-1]))
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    result = pel("candidates", folder / "ranker.cfg", tmp_path / "linker")
    assert result.exit_code == 1 and "its KB has not the entities" in " ".join(result.output.split())


def test_distil_does_not_overwrite_its_corpus(folder):
    before = (folder / "train.spacy").read_bytes()
    result = pel("distil", folder / "training" / "model-last", folder / "train.spacy", folder / "train.spacy")
    assert result.exit_code == 1 and "is the corpus too; name another file" in " ".join(result.output.split())
    assert (folder / "train.spacy").read_bytes() == before


@pytest.mark.parametrize("command", ["tune-ranker", "distil"])
def test_a_pipeline_without_a_ranker(folder, command):
    more = ["targets.jsonl"] if command == "distil" else []
    result = pel(command, folder / "linker", folder / "dev.spacy", *more)
    assert result.exit_code == 1 and "has no pel_ranker: its components are pel_linker" in result.output


def test_verify_reads_the_ranker_too(folder):
    pipeline = folder / "training" / "model-last"
    assert pel("verify", pipeline).exit_code == 0
    nlp = spacy.load(pipeline)
    with torch.no_grad():
        pair_tower(nlp.get_pipe("pel_ranker").model).head.weight.fill_(float("nan"))
    nlp.to_disk(folder / "broken")
    result = pel("verify", folder / "broken")
    assert result.exit_code == 1 and "pel_ranker gives scores that are not finite" in result.output
