"""`spacy pel baselines`: a JSON of measures for each baseline, with those of `evaluate`."""

import json
import sys

import pytest
from commands import one_line
from lookup_linker import make_doc
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase


@pytest.fixture
def folder(tmp_path):
    KnowledgeBase.create(tmp_path / "kb", [Entity("D1", "Heart Failure", ("HF",)), Entity("D2", "Renal Failure")])
    write_docs(tmp_path / "dev.spacy", [make_doc(("HF", "D1"), ("aspirin", "NIL"))])
    write_docs(tmp_path / "train.spacy", [make_doc(("HF", "D1"))])
    return tmp_path


def run(folder, *options, corpus="dev.spacy", kb="kb"):
    arguments = [folder / kb, folder / corpus, folder / "metrics", *options]
    return CliRunner().invoke(pel_app, ["baselines", *map(str, arguments)])


def test_a_file_for_each_baseline(folder):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    result = run(folder, "--train", folder / "train.spacy", "--tune", folder / "dev.spacy", "--top-k", 1)
    assert result.exit_code == 0, result.output
    found = {path.stem: json.loads(path.read_text()) for path in (folder / "metrics").iterdir()}
    assert sorted(found) == ["baseline-exact-alias", "baseline-tfidf", "baseline-tfidf-long-forms"]
    for name, values in found.items():
        assert values["corpus"] == str(folder / "dev.spacy") and name.removeprefix("baseline-") in result.output
        assert (values["recall_at_1"], values["seen_recall_at_1"], values["nil_f1"]) == (1, 1, 1)
    table = CliRunner().invoke(pel_app, ["table", str(folder / "metrics"), "--columns", "recall_at_1,nil_f1"])
    assert "| baseline-tfidf-long-forms | 1.000 | 1.000 |" in table.output


def test_without_train_and_tune(folder):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    assert run(folder).exit_code == 0
    values = json.loads((folder / "metrics" / "baseline-tfidf.json").read_text())
    assert values["nil_threshold"] is values["seen_recall_at_1"] is None


def test_lines_have_the_tokens_of_the_language(folder):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    line = {"text": "HF-Patient", "ents": [{"start": 0, "end": 2, "kb_id": "D1"}]}
    (folder / "dev.jsonl").write_text(json.dumps(line) + "\n")
    for lang, recall in (("en", 1), ("de", 0)):
        assert run(folder, "--lang", lang, corpus="dev.jsonl").exit_code == 0
        assert json.loads((folder / "metrics" / "baseline-exact-alias.json").read_text())["recall_at_1"] == recall


def test_errors_are_one_line_and_write_nothing(folder, monkeypatch):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    write_docs(folder / "plain.spacy", [make_doc(("HF", ""))])
    assert "plain.spacy: the corpus has no annotated mention" in one_line(run(folder, corpus="plain.spacy"))
    assert "nowhere.spacy does not exist" in one_line(run(folder, corpus="nowhere.spacy"))
    assert "nowhere" in one_line(run(folder, kb="nowhere"))
    tuned = one_line(run(folder, "--tune", folder / "train.spacy"))
    assert "train.spacy" in tuned and "of 1 mentions 0 are NIL" in tuned
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert "spacy-pel[baselines]" in one_line(run(folder))
    assert not (folder / "metrics").exists()
