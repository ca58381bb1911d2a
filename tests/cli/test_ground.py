"""`spacy pel ground`: terms to ids, a row a term, whatever else the pipeline and the table have."""

from __future__ import annotations

import csv
import io
import shutil
from types import SimpleNamespace

import pytest
import spacy
import srsly
from commands import one_line, pel
from tiny import make_kb, make_pipeline, with_codes, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.kb.entity import Entity
from spacy_pel.linking import terms

CODES = {"D009203": ("ICD10CM:I21", "ICD10CM:I21.9", "MSH:D009203"), "D001241": ("RXNORM:1191",)}


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    """An untrained pipeline, which links by names, with a component that must not run."""
    path = tmp_path_factory.mktemp("ground")
    kb = make_kb(path / "kb", with_codes(CODES))
    nlp, component, _, _ = make_pipeline(write_encoder(path / "encoder"), kb)
    component.index(progress=False)
    nlp.add_pipe("entity_ruler", first=True).add_patterns([{"label": "X", "pattern": "attack"}])
    nlp.to_disk(path / "linker")
    return path / "linker"


@pytest.fixture(scope="module")
def tuned(linker, tmp_path_factory):
    path = shutil.copytree(linker, tmp_path_factory.mktemp("tuned") / "linker")
    srsly.write_json(path / "pel_linker" / "cfg", {"nil_threshold": 1.5, "calibration": [0.0, 0.0]})
    return path


def ground(linker, *arguments, **settings):
    return CliRunner().invoke(pel_app, ["ground", str(linker), *map(str, arguments)], **settings)


def table(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def test_a_row_a_term_with_all_its_columns(linker, tmp_path, monkeypatch):
    linked = []
    real = terms._as_mention
    monkeypatch.setattr(terms, "_as_mention", lambda nlp, term, key: linked.append(term) or real(nlp, term, key))
    source = tmp_path / "terms.csv"
    source.write_text('n,dx\n1,heart attack\n2,\n3,"aspirin "\n4,heart  attack\n5,fits\n', encoding="utf-8")
    result = ground(linker, source, tmp_path / "new" / "out.tsv", "--column", "dx")
    assert result.exit_code == 0 and result.stdout == "", result.output
    assert "5 rows with 3 distinct terms, 0 of them NIL" in result.stderr and "left empty: 1" in result.stderr
    assert linked == ["heart attack", "aspirin", "fits"]
    rows = table((tmp_path / "new" / "out.tsv").read_text(encoding="utf-8"), "\t")
    assert (
        [row["n"] for row in rows] == list("12345") and rows[2]["dx"] == "aspirin " and rows[3]["dx"] == "heart  attack"
    )
    assert [row["kb_id"] for row in rows] == ["D009203", "", "D001241", "D009203", "D012640"]
    assert [row["kb_name"] for row in rows] == [
        "Myocardial Infarction",
        "",
        "Aspirin",
        "Myocardial Infarction",
        "Seizures",
    ]
    assert list(rows[0]) == ["n", "dx", "kb_id", "kb_name", "kb_score", "kb_named"] and set(
        list(rows[1].values())[1:]
    ) == {""}


def test_it_says_how_many_entities_have_the_term_as_a_name(linker, tmp_path):
    shutil.copytree(linker, tmp_path / "linker")
    nlp = spacy.load(tmp_path / "linker")
    nlp.get_pipe("pel_linker").add_entities([Entity("X1", "Gout", aliases=("Heart-attack",))])
    found = table(ground(tmp_path / "linker", "-", input="Heart Attack\naspirin\nno name\n").stdout)
    assert [row["kb_named"] for row in found] == ["2", "1", "0"]


def test_it_is_what_the_linker_says_of_the_mention_alone(linker):
    nlp = spacy.load(linker)
    doc = nlp.make_doc("heart attack")
    doc.ents = [doc.char_span(0, 12, label="MENTION")]
    ((best, score), *others) = nlp.get_pipe("pel_linker")(doc).ents[0]._.kb_ents
    result = ground(linker, "-", "--top-k", 3, input="heart attack\n")
    (row,) = table(result.stdout)
    assert (row["kb_id"], row["kb_score"]) == (row["kb_id_1"], row["kb_score_1"]) == (best, f"{score:.4f}")
    assert [(row[f"kb_id_{i}"], row[f"kb_score_{i}"]) for i in (2, 3)] == [(id, f"{s:.4f}") for id, s in others[:2]]
    assert row["term"] == "heart attack" and row["kb_name_1"] == "Myocardial Infarction" and "kb_id_4" not in row


def test_nil_probabilities_and_codes(tuned, linker):
    how = ("-", "--top-k", 2, "--codes", "ICD10CM, RXNORM")
    (row,) = table(ground(tuned, *how, input="heart attack\n").stdout)
    assert (row["kb_id"], row["kb_name"], row["kb_prob"], row["kb_ICD10CM"]) == ("NIL", "", "0.5000", "")
    assert row["kb_id_1"] == "D009203" and row["kb_score"] == row["kb_score_1"]
    (row,) = table(ground(linker, *how, input="heart attack\n").stdout)
    assert (row["kb_ICD10CM"], row["kb_RXNORM"]) == ("I21|I21.9", "") and "kb_prob" not in row


def test_a_group_of_spans(linker, tmp_path):
    spacy.load(linker, config={"components.pel_linker.spans_key": "sc"}).to_disk(tmp_path / "linker")
    assert spacy.load(tmp_path / "linker").get_pipe("pel_linker").spans_key == "sc"
    (row,) = table(ground(tmp_path / "linker", "-", input="aspirin").stdout)
    assert row["kb_id"] == "D001241"


def test_a_first_row_that_is_a_term_is_told(linker, tmp_path):
    (tmp_path / "terms.tsv").write_text("aspirin\nheart attack\n")
    result = CliRunner().invoke(pel_app, ["ground", str(linker), str(tmp_path / "terms.tsv"), "-"])
    assert result.exit_code == 0 and 'its first row, "aspirin", is read as the header' in result.output
    (tmp_path / "terms.tsv").write_text("term\nheart attack\n")
    result = CliRunner().invoke(pel_app, ["ground", str(linker), str(tmp_path / "terms.tsv"), "-"])
    assert result.exit_code == 0 and "is read as the header" not in result.output


@pytest.mark.parametrize("words", [("ground", "LINKER", "-"), ("link", "LINKER", "-", "-")])
def test_without_a_standard_input_there_is_nothing_to_read(linker, monkeypatch, words):
    monkeypatch.setattr("spacy_pel.cli.standard_input.sys", SimpleNamespace(stdin=None))
    assert "standard input is closed; name a file" in one_line(
        pel(*(linker if word == "LINKER" else word for word in words))
    )


def test_another_delimiter_is_told(linker, tmp_path):
    (tmp_path / "terms.csv").write_text("id;dx\n1;fits\n")
    result = ground(linker, tmp_path / "terms.csv", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert """its header, "id;dx", is read as one column, but ';' seems to part the cells""" in result.stderr


def test_what_is_wrong_is_one_line_and_writes_nothing(linker, tmp_path):
    source, there = tmp_path / "terms.csv", tmp_path / "there.csv"
    source.write_text("dx,kb_id\nfits,1\n", encoding="utf-8")
    there.write_text("old", encoding="utf-8")
    (tmp_path / "folder.csv").mkdir()
    long = tmp_path / "long.csv"
    long.write_text(f"dx\nfits\n{'fits ' * 240_000}x\n", encoding="utf-8")
    out = tmp_path / "out.csv"
    for arguments, error in (
        ((tmp_path / "none.csv", out), "none.csv is no file"),
        ((tmp_path / "terms.xlsx", out), "say it with --format"),
        ((source, tmp_path / "out.xlsx", "--column", "dx"), "a .csv or .tsv is written"),
        ((source, source, "--column", "dx", "--force"), "is TERMS too"),
        ((source, there, "--column", "dx"), "is there already"),
        (("NO LINKER", source, tmp_path / "folder.csv", "--column", "dx", "--force"), "folder.csv is a folder"),
        (("NO LINKER", source, there / "out.csv", "--column", "dx"), "cannot be written"),
        ((long, out), "long.csv:3: the text has 1,200,001 characters, and the limit is"),
        ((source, out), "say which has the terms with --column"),
        ((source, out, "--column", "dx"), 'has a column "kb_id" already'),
        (
            (source, out, "--column", "dx", "--codes", "ICD9"),
            'the vocabulary "ICD9"; the commonest vocabularies are',
        ),
        ((source, out, "--column", "dx", "--codes", ","), "names no vocabulary"),
        ((source, out, "--column", "dx", "--top-k", 65), "--top-k 65 is more than the 64 candidates that the"),
    ):
        result = ground(*arguments) if arguments[0] == "NO LINKER" else ground(linker, *arguments)
        assert result.exit_code == 1 and error in result.stderr and result.stdout == "", result.output
        assert result.stderr.count("✘") == 1 and not out.exists() and there.read_text(encoding="utf-8") == "old"
    source.write_text("dx\nfits\n", encoding="utf-8")
    assert ground(linker, source, there, "--force").exit_code == 0
    assert table(there.read_text(encoding="utf-8"))[0]["kb_id"] == "D012640"
