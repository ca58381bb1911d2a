"""Texts that nobody has annotated, from files of lines and from `.spacy` corpora."""

import gzip

import pytest
import spacy

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.corpora.plain_texts import read_plain
from spacy_pel.errors import PelError


def test_lines_and_docs(tmp_path):
    nlp = spacy.blank("en")
    plain, packed, docs = tmp_path / "a.txt", tmp_path / "b.jsonl.gz", tmp_path / "c.spacy"
    plain.write_bytes("\ufeffA cold.\r\n\nAn old cold.\n".encode())
    packed.write_bytes(gzip.compress(b'{"text": "A cold.", "id": 1}\n{"text": "An old cold."}\n'))
    write_docs(docs, [nlp("A cold."), nlp("An old cold.")])
    for path in (plain, packed, docs):
        assert [doc.text for doc in read_plain(path, nlp)] == ["A cold.", "An old cold."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"A cold.\n\xff\n", r"a\.txt:2: byte 1 of the line is not UTF-8"),
        ("a.jsonl", b'{"text": 3}\n', r'a\.jsonl:1: "text" is 3'),
        ("a.txt", b"A cold.\n" + b"x" * 101, r"a\.txt:2: the text has 101 characters, and the limit is 100; part it"),
        ("a.csv", b"A cold.\n", r"a\.csv is not a \.spacy corpus"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    short = spacy.blank("en")
    short.max_length = 100
    with pytest.raises(PelError, match=message):
        list(read_plain(path, short))
