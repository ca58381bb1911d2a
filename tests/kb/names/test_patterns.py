"""A KB's names find mentions in a pipeline without NER."""

from __future__ import annotations

import spacy
import srsly
from tiny import make_kb
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.names.patterns import patterns

ENTITIES = [
    Entity("D1", "Heart Failure", ("cardiac failure", "HEART FAILURE", "HF")),
    Entity("D2", "Acute Leukemia", ("ALL", "all", "12-34", "heart failure")),
]


def test_which_names():
    found = list(patterns(ENTITIES, label="X", min_length=2, stop_words={"all"}))
    assert found == [
        {"label": "X", "pattern": "Heart Failure"},
        {"label": "X", "pattern": "cardiac failure"},
        {"label": "X", "pattern": [{"ORTH": "HF"}]},
        {"label": "X", "pattern": "Acute Leukemia"},
    ]
    assert [{"ORTH": "HF"}] not in [p["pattern"] for p in patterns(ENTITIES, label="X", min_length=3, stop_words=())]


def test_from_the_kb_to_spans(tmp_path):
    make_kb(tmp_path / "kb")
    arguments = ["kb", "patterns", str(tmp_path / "kb"), str(tmp_path / "patterns.jsonl"), "--min-length", "2"]
    result = CliRunner().invoke(pel_app, arguments)
    assert result.exit_code == 0, result.output
    lines = list(srsly.read_jsonl(tmp_path / "patterns.jsonl"))
    assert f"{len(lines)} patterns" in result.output

    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("span_ruler", config={"phrase_matcher_attr": "LOWER", "annotate_ents": True})
    ruler.add_patterns(lines)
    doc = nlp("Aspirin after a HEART ATTACK; af or AF?")
    assert [ent.text for ent in doc.ents] == ["Aspirin", "HEART ATTACK", "AF"]
    assert {ent.label_ for ent in doc.ents} == {"ENTITY"}


def test_stop_words_are_those_of_the_language_and_the_label_is_the_one_given(tmp_path):
    make_kb(tmp_path / "kb", [Entity("D1", "ABER", ("all",))])
    for lang, pattern in (("en", [{"ORTH": "ABER"}]), ("de", "all")):
        arguments = [str(tmp_path / "kb"), str(tmp_path / "patterns.jsonl"), "--lang", lang, "--label", "DRUG"]
        result = CliRunner().invoke(pel_app, ["kb", "patterns", *arguments])
        assert result.exit_code == 0, result.output
        assert list(srsly.read_jsonl(tmp_path / "patterns.jsonl")) == [{"label": "DRUG", "pattern": pattern}]


def test_an_unknown_language(tmp_path):
    make_kb(tmp_path / "kb")
    arguments = ["kb", "patterns", str(tmp_path / "kb"), str(tmp_path / "patterns.jsonl"), "--lang", "qqq"]
    result = CliRunner().invoke(pel_app, arguments)
    assert result.exit_code == 1 and "--lang qqq" in result.stderr
    assert not (tmp_path / "patterns.jsonl").exists()
