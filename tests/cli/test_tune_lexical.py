"""`spacy pel tune-lexical`: what it stores is what it says, and takes effect."""

from __future__ import annotations

import json

import pytest
import spacy
from tiny import make_docs, make_kb, make_pipeline, train, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.files.parts import write_state
from spacy_pel.pipeline.linker import PelLinker
from spacy_pel.tuning.tuned import Tuned

runner = CliRunner()


@pytest.fixture
def pipeline(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    train(nlp, examples, optimizer, 3)
    linker.index(progress=False)
    linker.tuned = Tuned(nil_threshold=0.5)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", make_docs(spacy.blank("en")))
    return tmp_path / "linker"


def tune(pipeline, dev="dev.spacy"):
    return runner.invoke(pel_app, ["tune-lexical", str(pipeline), str(pipeline.parent / dev)])


def test_what_it_stores_takes_effect_and_drops_the_nil_threshold(pipeline):
    result = tune(pipeline)
    assert result.exit_code == 0, result.output
    assert "Dropped the NIL threshold 0.5000" in result.output
    stored = json.loads((pipeline / "pel_linker" / "cfg").read_text())
    assert set(stored) == {"lexical", "lexical_tuned_with", "saved"} and set(stored["lexical"]) == {"ngram", "exact"}
    assert f"{stored['lexical']['ngram']:.4f}" in result.stdout and "recall_at_1" in result.stdout
    linker = spacy.load(pipeline).get_pipe("pel_linker")
    assert linker.name_weights.as_setting() == pytest.approx(stored["lexical"]) and linker.threshold is None
    doc = spacy.blank("en").make_doc("heart attack")
    assert linker.rank([doc[0:2]], 1)[0][0][0] == "D009203"


def test_a_setting_that_wins_is_named(pipeline):
    nlp = spacy.load(pipeline, config={"components.pel_linker.lexical": None})
    nlp.to_disk(pipeline)
    result = tune(pipeline)
    assert result.exit_code == 0 and "lexical = null wins" in " ".join(result.stdout.split())
    assert spacy.load(pipeline).get_pipe("pel_linker").threshold == 0.5 and "Dropped" not in result.output


def test_what_another_command_has_stored_meanwhile_is_not_lost(pipeline, monkeypatch):
    def changed(self, **_):
        write_state(pipeline / "pel_linker", {"nil_threshold": 0.25})

    monkeypatch.setattr(PelLinker, "tune_names", changed)
    result = tune(pipeline)
    assert result.exit_code == 1 and "another command has changed it meanwhile" in result.stderr
    assert json.loads((pipeline / "pel_linker" / "cfg").read_text())["nil_threshold"] == 0.25


def test_a_corpus_without_a_right_candidate(pipeline):
    docs = make_docs(spacy.blank("en"), [("She took aspirin .", {"aspirin": "NIL"})])
    write_docs(pipeline.parent / "nil.spacy", docs)
    before = (pipeline / "pel_linker" / "cfg").read_text()
    result = tune(pipeline, "nil.spacy")
    assert result.exit_code == 1 and "nil.spacy: no mention has its entity" in result.stderr
    assert (pipeline / "pel_linker" / "cfg").read_text() == before
