"""KILT's entity linking as a corpus."""

from __future__ import annotations

import re

import pytest
import spacy
from on_disk import write_lines
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.corpora.kilt import read_kilt_mentions
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import gold_mentions

NLP = spacy.blank("en")
INPUT = "EU rejects [START_ENT] German [END_ENT] call ."


def record(*ids, **others):
    provenance = [{"wikipedia_id": id_, "title": "x"} for id_ in ids]
    return {"id": "1EU", "input": INPUT, "output": [{"answer": "x", "provenance": provenance}], **others}


def read_one(tmp_path, line):
    (doc,) = read_kilt_mentions(write_lines(tmp_path / "dev.jsonl", [line]), NLP)
    return doc


def test_the_marked_mention(tmp_path):
    source, out = write_lines(tmp_path / "dev.jsonl", [record("11867")]), tmp_path / "dev.spacy"
    result = CliRunner().invoke(pel_app, ["convert", str(source), str(out), "--format", "kilt"])
    assert result.exit_code == 0, result.output
    (doc,) = read_docs(out, NLP.vocab)
    ((mention, ids),) = gold_mentions(doc)
    assert (doc.text, mention.text, ids) == ("EU rejects German call .", "German", ("11867",))
    assert [ent.kb_id_ for ent in doc.ents] == ["11867"] and doc.user_data["id"] == "1EU"


def test_several_ids_and_none(tmp_path):
    assert gold_mentions(read_one(tmp_path, record("1", "2", "1")))[0].ids == ("1", "2")
    without = record()
    del without["output"]
    assert gold_mentions(read_one(tmp_path, without))[0].ids == ()


def test_marks_at_the_ends(tmp_path):
    doc = read_one(tmp_path, record("1", input="[START_ENT]EU[END_ENT]"))
    assert doc.text == "EU" == doc.ents[0].text


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (record("1", input="EU rejects"), '"input" does not mark one mention; write [START_ENT] before it'),
        (record("1", input="[START_ENT] [END_ENT] EU"), "does not mark one mention"),
        (record("1", input=f"{INPUT} {INPUT}"), "does not mark one mention"),
        (record("1", input="[END_ENT] EU [START_ENT]"), "does not mark one mention"),
        (record("1", input=None), '"input" is missing or empty'),
        (record(), '"output" names no "wikipedia_id"; write {"id"'),
        (record(7), '"wikipedia_id" is 7; make it a string'),
        (record("1", output="x"), '"output" and its "provenance" are no lists of objects'),
        (record("1", output=[{"provenance": ["x"]}]), "are no lists of objects"),
        (record("1", id=3), '"id" is 3; make it a string'),
    ],
)
def test_a_line_that_is_not_right_is_left_out_and_named(tmp_path, bad, message):
    path = write_lines(tmp_path / "dev.jsonl", [*many(120), bad])
    with pytest.warns(UserWarning, match=re.escape(f"{path}:121: ") + ".*" + re.escape(message)):
        assert len(list(read_kilt_mentions(path, NLP))) == 120
    with pytest.raises(PelError, match=re.escape(f"{path}:121: ")):
        list(read_kilt_mentions(path, NLP, strict=True))
    write_lines(path, [*many(90), bad])
    with pytest.raises(PelError, match=r"Not right: 1 of 91 mentions\. More than 1 %"):
        list(read_kilt_mentions(path, NLP))


def many(n):
    return [record("1", id=str(number)) for number in range(n)]


def test_a_line_has_an_id_of_its_own_or_none(tmp_path):
    path = write_lines(
        tmp_path / "dev.jsonl", [*many(200), record("2", id="7"), record("2", id=""), record("2", id="")]
    )
    with pytest.warns(
        UserWarning, match=r'dev\.jsonl:201: the id "7" is that of line 8; give every mention its own id'
    ):
        assert len(list(read_kilt_mentions(path, NLP))) == 202


def test_no_line(tmp_path):
    with pytest.raises(PelError, match=r"dev\.jsonl holds no mention: write"):
        list(read_kilt_mentions(write_lines(tmp_path / "dev.jsonl", []), NLP))
