"""Corrected output of `link` as a corpus."""

from __future__ import annotations

import gzip
import json
import re

import pytest
import spacy

from spacy_pel.corpora.linked_lines import read_linked_lines
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import gold_mentions

TEXT = "Mitral stenosis and MS, not dropsy."


def ent(form: str, **others) -> dict:
    start = TEXT.index(form)
    return {"start": start, "end": start + len(form), **others}


def read(path, ents, **options):
    path.write_text(json.dumps({"text": TEXT, "ents": ents, "doc": 7}) + "\n")
    (doc,) = read_linked_lines(path, spacy.blank("en"), **options)
    return doc


def test_every_mention_is_gold_and_the_longest_are_entities(tmp_path):
    ents = [
        ent("MS", kb_id="X:1|X:2", text="MS", kb_ents=[["X:9", 0.5]], note="mine"),
        ent("Mitral stenosis", kb_id="X:3", label="DISEASE"),
        ent("stenosis", kb_id=None),
        ent("dropsy", is_nil=True),
    ]
    doc = read(tmp_path / "a.jsonl", ents, strip_prefix="X:")
    found = {mention.span.text: mention.ids for mention in gold_mentions(doc)}
    assert found == {"MS": ("1", "2"), "Mitral stenosis": ("3",), "stenosis": (), "dropsy": ("NIL",)}
    assert [(one.text, one.label_) for one in doc.ents] == [
        ("Mitral stenosis", "DISEASE"),
        ("MS", "MENTION"),
        ("dropsy", "MENTION"),
    ]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({"kb_id": "X:1 | X:2"}, ("1", "2")),
        ({"kb_id": " X: 1|"}, ("1",)),
        ({"kb_id": " "}, ()),
        ({"kb_id": "X:"}, ()),
        ({"kb_id": " ", "is_nil": True}, ("NIL",)),
        ({"kb_id": " NIL ", "is_nil": True}, ("NIL",)),
        ({"kb_id": "X:1", "is_nil": False}, ("1",)),
    ],
)
def test_ids_are_read_without_what_is_around_them(tmp_path, given, ids):
    (mention,) = gold_mentions(read(tmp_path / "a.jsonl", [ent("MS", **given)], strip_prefix="X:"))
    assert mention.ids == ids


def test_packed_files_and_texts_without_mentions(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps({"text": TEXT, "ents": []}).encode() + b"\n\n"))
    (doc,) = read_linked_lines(path, spacy.blank("en"))
    assert doc.text == TEXT and gold_mentions(doc) == []


def test_an_empty_text_is_a_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "", "ents": []}\n{"text": "dropsy", "ents": []}\n')
    assert [doc.text for doc in read_linked_lines(path, spacy.blank("en"))] == ["", "dropsy"]


@pytest.mark.parametrize(
    "ents, error",
    [
        ([ent("MS", kbid="X:1")], '"ents"[0] has "kbid"; did you mean "kb_id"?'),
        ([ent("MS"), {"start": 30, "end": 99}], '"ents"[1]: start 30 and end 99 are no span of the text'),
        ([ent("MS", text="HD")], "hold 'MS', not 'HD'"),
        ([ent("MS", kb_id="X:1", is_nil=True)], '"ents"[0]: "is_nil" is true, but "kb_id" is "X:1"; make it "NIL"'),
        ([ent("MS", kb_id=7)], '"kb_id" is 7; make it a string'),
        ({}, '"ents" is no list'),
        (["MS"], '"ents"[0] is no object'),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, ents, error):
    with pytest.raises(PelError, match=re.escape(f"{tmp_path / 'a.jsonl'}:1: ") + ".*" + re.escape(error)):
        read(tmp_path / "a.jsonl", ents)


@pytest.mark.parametrize(
    "lines, error",
    [
        ("", "holds no text"),
        ('\n{"text": "a"}\n', r':2: "ents" is missing'),
        ('{"ents": []}\n', r':1: "text" is missing; write \{"text"'),
        ("[]\n", ":1: the line is not a JSON object"),
        ('\n{"text": "%s", "ents": []}\n' % ("x" * 101), ":2: the text has 101 characters, and the limit is 100"),
    ],
)
def test_other_lines(tmp_path, lines, error):
    path = tmp_path / "a.jsonl"
    path.write_text(lines)
    short = spacy.blank("en")
    short.max_length = 100
    with pytest.raises(PelError, match=re.escape(str(path)) + ".*" + error):
        list(read_linked_lines(path, short))
