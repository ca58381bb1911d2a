"""Linked Docs on the way out: lines that are JSON and whole, `.spacy` files that are whole or not there."""

import json
import resource

import pytest
import spacy
from spacy.tokens import Span

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.errors import PelError
from spacy_pel.linking.output import LinkedDocs, LinkedLines
from spacy_pel.mentions.extensions import set_extensions

set_extensions()
nlp = spacy.blank("en")


def linked_doc(text="Lithium 锂"):
    doc = nlp(text)
    doc.ents = [Span(doc, 0, 1, label="X", kb_id="D1")]
    doc.ents[0]._.kb_ents, doc.ents[0]._.kb_prob = [("D1", 0.5), ("D2", 0.25)], 0.9
    return doc


def test_a_line_is_json_in_utf_8(tmp_path):
    path = tmp_path / "out.jsonl"
    with LinkedLines(path, with_prob=True) as lines:
        lines.write(linked_doc(), {"ents": "old", "text": "Lithium 锂", "half": "\ud800"})
    line = path.read_text(encoding="utf-8")
    assert "锂" in line and line.count("\n") == 1
    ent = {"start": 0, "end": 7, "text": "Lithium", "label": "X", "kb_id": "D1", "is_nil": False}
    ent |= {"kb_ents": [["D1", 0.5], ["D2", 0.25]], "kb_prob": 0.9}
    assert json.loads(line) == {"ents": [ent], "text": "Lithium 锂", "half": "\ud800"}


def test_a_full_disk_leaves_whole_lines(tmp_path):
    path = tmp_path / "out.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(PelError, match=r"out\.jsonl cannot be written: File too large"), LinkedLines(path) as lines:
            for number in range(1000):
                lines.write(linked_doc(), {"number": number})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    written = path.read_bytes()
    assert written.endswith(b"\n") and 99_000 < len(written) < 100_000
    numbers = [json.loads(line)["number"] for line in written.splitlines()]
    assert numbers == list(range(len(numbers)))


def test_nothing_is_written_without_a_text(tmp_path):
    with LinkedLines(tmp_path / "a.jsonl"), LinkedDocs(tmp_path / "a.spacy"):
        pass
    assert not list(tmp_path.iterdir())


def test_docs_that_cannot_be_stored_are_one_error_and_no_file(tmp_path):
    path, odd = tmp_path / "out.spacy", linked_doc()
    odd.user_data["spans"] = list(odd.ents)
    with pytest.raises(PelError, match=r"out\.spacy: a component keeps"), LinkedDocs(path) as docs:
        docs.write(linked_doc(), {})
        docs.write(odd, {})
    assert not path.exists()


def test_docs_come_back_with_their_candidates(tmp_path):
    path = tmp_path / "new" / "out.spacy"
    with LinkedDocs(path) as docs:
        docs.write(linked_doc(), {})
    (doc,) = read_docs(path, nlp.vocab)
    assert doc.ents[0].kb_id_ == "D1" and list(map(tuple, doc.ents[0]._.kb_ents)) == [("D1", 0.5), ("D2", 0.25)]
