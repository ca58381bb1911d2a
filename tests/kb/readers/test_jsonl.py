"""Entity records from JSON lines, and every way to get them wrong."""

from __future__ import annotations

import json

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.kb.readers import READERS
from spacy_pel.kb.readers.jsonl import read_jsonl

GOOD = b'{"id": "D001241", "name": "Aspirin"}\n'


def write(tmp_path, data: bytes):
    path = tmp_path / "entities.jsonl"
    path.write_bytes(data)
    return path


def test_records(tmp_path):
    full = {
        "id": "C000006",
        "name": "insulin, neutral",
        "aliases": ["Velosulin", "нейтральный «инсулин»", "\U0001f489"],
        "types": ["Chemicals and Drugs"],
        "definition": 'A "clear" solution.\u2028Same line.',
        "definition_source": "MeSH",
        "xrefs": ["CHEBI:5931"],
        "source": "gilda",
    }
    null = dict.fromkeys(full) | {"id": "C000009", "name": "N-acetyl"}
    lines = [json.dumps(full), "", json.dumps(full | {"id": "ИД"}, ensure_ascii=False), "  ", json.dumps(null)]
    path = write(tmp_path, b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    first, second, third = read_jsonl(path)
    assert first == Entity(
        id="C000006",
        name="insulin, neutral",
        aliases=("Velosulin", "нейтральный «инсулин»", "\U0001f489"),
        types=("Chemicals and Drugs",),
        definition='A "clear" solution.\u2028Same line.',
        xrefs=("CHEBI:5931",),
        source="gilda",
    )
    assert second.id == "ИД" and second.aliases == first.aliases
    assert third == Entity(id="C000009", name="N-acetyl")
    assert READERS["jsonl"] is read_jsonl


@pytest.mark.parametrize(
    "line, message",
    [
        (b'{"id": "D2", "name": ', "not valid JSON"),
        (b'{"id": "D2", "name": "a\x01b"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"id": "D2", "name": "Caf\xe9"}', "byte 26 of the line is not UTF-8"),
        (b'{"id": "D2", "name": "\\ud83d"}', "surrogate"),
        (b'{"name": "Ibuprofen"}', '"id" is missing'),
        (b'{"id": " ", "name": "Ibuprofen"}', '"id" is missing'),
        (b'{"id": null, "name": "Ibuprofen"}', '"id" is missing'),
        (b'{"id": "NIL", "name": "Ibuprofen"}', 'the id "NIL" means something else'),
        (b'{"id": "D2|D3", "name": "Ibuprofen"}', 'the id "D2|D3" means something else'),
        (b'{"id": "D2"}', '"name" is missing'),
        (b'{"id": "D2", "name": ""}', '"name" is missing'),
        (b'{"id": 7052, "name": "Ibuprofen"}', '"id" is 7052; make it a string'),
        (b'{"id": "D2", "name": ["Ibuprofen"]}', '"name" is .* make it a string'),
        (b'{"id": "D2", "name": "x", "definition": {"en": "x"}}', '"definition" is .* make it a string'),
        (b'{"id": "D2", "name": "x", "aliases": "Advil"}', '"aliases" is "Advil"; make it a list of strings'),
        (b'{"id": "D2", "name": "x", "types": [1]}', '"types" is .* make it a list of strings'),
        (b'{"id": "D2", "name": "x", "xrefs": {"a": "b"}}', '"xrefs" is .* make it a list of strings'),
        (b'["D2", "Ibuprofen"]', "not a JSON object"),
        (b'{"id": "D001241", "name": "Aspirin"}', 'the id "D001241" is that of line 1'),
    ],
)
def test_a_bad_line_is_named_and_leaves_nothing(tmp_path, line, message):
    path = write(tmp_path, GOOD + b"\n" + line + b"\n")
    with pytest.raises(PelError, match=message) as error:
        KnowledgeBase.create(tmp_path / "kb", read_jsonl(path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert "\n" not in str(error.value)
    assert [file.name for file in tmp_path.iterdir()] == ["entities.jsonl"]


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_an_empty_file(tmp_path, data):
    path = write(tmp_path, data)
    with pytest.raises(PelError, match=r"entities\.jsonl: holds no entities"):
        KnowledgeBase.create(tmp_path / "kb", read_jsonl(path))
    assert [file.name for file in tmp_path.iterdir()] == ["entities.jsonl"]
