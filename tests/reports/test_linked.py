"""A linked corpus in numbers, and the command that prints them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import spacy
from commands import one_line
from spacy.tokens import Span
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.mentions.links import Link, write_links
from spacy_pel.reports.linked import count_linked, drift, known_bins, summary
from spacy_pel.reports.linked_texts import files_in, linked_texts

NLP = spacy.blank("en")


def ent(text, kb_id, prob=None, label="DRUG"):
    return {"start": 0, "end": len(text), "text": text, "label": label, "kb_id": kb_id, "kb_prob": prob}


TEXTS = [
    [ent("aspirin", "D1", 0.9), ent("Aspirin", "D1", 0.7), ent("foo", "NIL", 0.05)],
    [],
    [
        ent("MS", "D2", 0.25, "DISEASE"),
        ent("Foo", "NIL", 1.0),
        ent("bar", "NIL"),
        ent("baz", "D3"),
        {"text": "no link"},
    ],
]


def write_lines(path, texts=TEXTS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": "…", "ents": ents}) + "\n" for ents in texts), encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(pel_app, ["report", *map(str, arguments)])


def test_what_is_counted(tmp_path):
    found = summary(count_linked([write_lines(tmp_path / "a.jsonl")], NLP.vocab))
    assert (found["n_texts"], found["n_mentions"], found["n_nil"]) == (3, 7, 3)
    assert found["nil_rate"] == pytest.approx(3 / 7)
    assert found["expected_accuracy"] == pytest.approx((0.9 + 0.7 + 0.25) / 3)
    assert found["expected_wrong"] == pytest.approx(0.1 + 0.3 + 0.75)
    assert found["labels"]["DISEASE"] == pytest.approx(
        {"n": 1, "nil_rate": 0.0, "expected_accuracy": 0.25, "expected_wrong": 0.75}
    )
    assert found["labels"]["DRUG"]["nil_rate"] == 0.5
    assert found["nil_forms"] == {"foo": 2, "bar": 1}
    assert list(found["entities"]) == ["D2", "D1"]  # D3 has no probability
    assert found["entities"]["D1"]["form"] == "aspirin" and found["entities"]["D1"]["n"] == 2
    assert found["probabilities"] == [1, 0, 1, 0, 0, 0, 0, 1, 0, 2]


def test_its_own_input_is_not_overwritten(tmp_path):
    path = write_lines(tmp_path / "a.jsonl")
    before = path.read_bytes()
    result = run(tmp_path, "--output", path)
    assert result.exit_code == 1 and "is one of the files to report on" in " ".join(result.output.split())
    assert path.read_bytes() == before


@pytest.mark.parametrize("against", ["known.jsonl", "known"])
def test_what_is_compared_with_is_not_overwritten(tmp_path, against):
    known, path = write_lines(tmp_path / "known" / "known.jsonl"), write_lines(tmp_path / "a.jsonl")
    before = known.read_bytes()
    given = known if against.endswith(".jsonl") else known.parent
    assert "is what is compared with too" in one_line(run(path, "--against", given, "--output", known))
    assert known.read_bytes() == before


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    path = write_lines(tmp_path / "linked" / "a.jsonl")
    result = run(path.parent, path, tmp_path / "linked" / ".." / "linked" / "a.jsonl", "--output", tmp_path / "r.json")
    assert result.exit_code == 0 and json.loads((tmp_path / "r.json").read_text())["n_texts"] == 3


def test_what_no_link_command_writes_is_passed_over_in_a_folder(tmp_path):
    path = write_lines(tmp_path / "linked" / "a.jsonl")
    for name in ("b.spacy.gz", "b.parquet.gz", "b.txt"):
        (tmp_path / "linked" / name).write_bytes(b"packed")
    assert files_in(tmp_path / "linked") == [path]


def test_figures_that_cannot_be_written_are_refused_before_anything_is_read(tmp_path):
    pytest.importorskip("matplotlib")
    broken = tmp_path / "a.jsonl"
    broken.write_text("no JSON\n")
    (tmp_path / "file").touch()
    assert f"--plots {tmp_path / 'file'}: no such folder" in one_line(run(broken, "--plots", tmp_path / "file"))


def test_docs_and_folders_are_read_too(tmp_path):
    doc = NLP("aspirin and foo")
    doc.ents = [Span(doc, 0, 1, "DRUG"), Span(doc, 2, 3, "DRUG")]
    write_links(doc, [Link("D1", [("D1", 0.5)], 0.9), Link("NIL", [], 0.2)], None, overwrite=True)
    doc.spans["other"] = [Span(doc, 0, 3, "X", kb_id="D2"), Span(doc, 1, 2, "X")]
    write_docs(tmp_path / "linked" / "b.spacy", [doc])
    write_lines(tmp_path / "linked" / "deeper" / "a.jsonl")
    files = files_in(tmp_path / "linked")
    assert [file.name for file in files] == ["b.spacy", "a.jsonl"]
    counts = count_linked(files, NLP.vocab)
    assert (counts.n_texts, counts.every.n, counts.every.nil) == (4, 9, 4)
    of_group = count_linked(files[:1], NLP.vocab, "other")
    assert (of_group.every.n, list(of_group.by_entity)) == (1, ["D2"])
    assert run(files[0], "--spans-key", "other", "--output", tmp_path / "r.json").exit_code == 0
    assert json.loads((tmp_path / "r.json").read_text())["n_mentions"] == 1


def test_drift():
    """By hand: of two bins, a quarter and three quarters against a half each."""
    bins, known = np.array([1, 3] + [0] * 8) * 10**6, np.array([1, 1] + [0] * 8) * 10**6
    assert drift(known, known) == 0
    assert drift(bins, known) == pytest.approx(-0.25 * math.log(0.5) + 0.25 * math.log(1.5), abs=1e-3)
    assert drift(bins, known) == pytest.approx(drift(known, bins))


def test_what_is_known_comes_from_evaluate_or_from_links(tmp_path):
    measures = {
        "reliability": [{"n": 3, "probability": 0.05, "right": 0.0}, {"n": 7, "probability": 1.0, "right": 1.0}]
    }
    (tmp_path / "dev.json").write_text(json.dumps(measures))
    assert known_bins(tmp_path / "dev.json", NLP.vocab).tolist() == [3, *[0] * 8, 7]
    assert known_bins(write_lines(tmp_path / "a.jsonl"), NLP.vocab).sum() == 5
    with pytest.raises(PelError, match=r"b\.jsonl has no probabilities; run `spacy pel tune-nil`"):
        known_bins(write_lines(tmp_path / "b.jsonl", [[ent("x", "D1")]]), NLP.vocab)
    (tmp_path / "table.json").write_text('{"a": 1}')
    with pytest.raises(PelError, match=r"table\.json has no probabilities of `spacy pel evaluate"):
        known_bins(tmp_path / "table.json", NLP.vocab)


def test_the_command(tmp_path):
    pytest.importorskip("matplotlib")
    write_lines(tmp_path / "linked" / "a.jsonl")
    dev = write_lines(tmp_path / "dev.jsonl", [[ent("aspirin", "D1", 0.95)] * 5])
    options = ["--against", dev, "--top", 1, "--output", tmp_path / "r.json", "--plots", tmp_path / "figures"]
    result = run(tmp_path / "linked", *options)
    assert result.exit_code == 0, result.output
    assert "foo" in result.output and "bar" not in result.output and "D2" in result.output
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["drift"] > 0.25 and found["nil_forms"] == {"foo": 2, "bar": 1}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"probabilities.png", "probabilities.svg"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"text": "x"}', r'a\.jsonl:2: "ents" is no list of links; write'),
        ('{"ents": [{"text": "x", "kb_id": 3}]}', r'a\.jsonl:2: "kb_id" is 3; make it a string'),
        ('{"ents": [{"text": "x", "kb_id": "D1", "kb_prob": 2}]}', r'a\.jsonl:2: "ents"\[0\]: "kb_prob" is 2'),
        ("{", r"a\.jsonl:2: the line is not valid JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path, text, error):
    path = write_lines(tmp_path / "a.jsonl", TEXTS[:1])
    path.write_text(path.read_text() + text + "\n")
    with pytest.raises(PelError, match=error):
        count_linked([path], NLP.vocab)


def test_what_holds_no_links_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    for path, words in (
        (tmp_path / "a.csv", "none of .jsonl"),
        (tmp_path / "b.jsonl", "does not exist"),
    ):
        result = run(path)
        assert result.exit_code == 1 and words in " ".join(result.output.split())
    (tmp_path / "empty").mkdir()
    assert "no .jsonl, .parquet, .spacy file under" in " ".join(run(tmp_path / "empty").output.split())
    assert "no mention is linked there" in " ".join(run(write_lines(tmp_path / "c.jsonl", [[]])).output.split())


def test_parquet_is_counted_as_lines_are(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "p").mkdir()
    rows = [{"id": str(i), "ents": ents} for i, ents in enumerate(TEXTS)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "p" / "a.parquet")
    lines = count_linked([write_lines(tmp_path / "a.jsonl")], NLP.vocab)
    assert summary(count_linked(files_in(tmp_path / "p"), NLP.vocab)) == summary(lines)
    parquet.write_table(pyarrow.table({"id": ["1"]}), tmp_path / "none.parquet")
    (tmp_path / "half.parquet").write_bytes((tmp_path / "p" / "a.parquet").read_bytes()[:50])
    for name, message in (("none", 'no column "ents"'), ("half", "no Parquet that can be read")):
        result = run(tmp_path / f"{name}.parquet")
        assert result.exit_code == 1 and f"{name}.parquet" in result.output and message in result.output


def test_a_row_of_parquet_that_is_not_right_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ents = [[{"kb_id": "D1", "kb_prob": probability}] for probability in (0.5, 1.5)]
    parquet.write_table(pyarrow.table({"ents": ents}), tmp_path / "p.parquet")
    with pytest.raises(PelError, match=r'p\.parquet, row 2: "ents"\[0\]: "kb_prob" is 1\.5'):
        list(linked_texts(tmp_path / "p.parquet", NLP.vocab, None))
