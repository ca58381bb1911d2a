"""ZESHEL's documents as entities."""

from __future__ import annotations

import pytest
from on_disk import write_lines
from typer.testing import CliRunner
from zeshel import WORLDS, id_of, write_zeshel

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers import read
from spacy_pel.kb.readers.zeshel import without_title


@pytest.fixture
def folder(tmp_path):
    return write_zeshel(tmp_path / "zeshel") / "documents"


def test_one_world(folder):
    found = list(read("zeshel", folder / "lego.json"))
    assert found[1] == Entity(id_of("lego", 1), "Seizures (ship)", (), ("lego",), "is a thing of lego .")
    assert found[0].definition == "aspirin met Seizures after the Heart of the metal was given in lego ."
    assert len(found) == 4


def test_worlds_in_one_kb(folder, tmp_path):
    assert [entity.types for entity in read("zeshel", folder)] == [(world,) for world in WORLDS for _ in range(4)]
    command = ["build-kb", str(folder), str(tmp_path / "kb"), "--format", "zeshel", "--types", "lego,muppets"]
    result = CliRunner().invoke(pel_app, command)
    assert result.exit_code == 0, result.output
    assert KnowledgeBase(tmp_path / "kb").type_counts() == {"lego": 4, "muppets": 4}


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("Lego Lego is a toy", "Lego", "Lego is a toy"),
        ("Alpha ( ship ) sails", "Alpha (ship)", "sails"),
        ("Alphabet sails", "Alpha", "Alphabet sails"),
        ("Beta  sails", "Alpha", "Beta sails"),
        ("Alpha", "Alpha", ""),
        ("", "Alpha", ""),
    ],
)
def test_the_title_is_taken_from_the_text(text, title, expected):
    assert without_title(text, title) == expected


def test_what_is_not_there(folder, tmp_path):
    with pytest.raises(PelError, match=r'--types: .*documents has no world "moon"; it has american_football, coron'):
        read("zeshel", folder, types=["lego", "moon"])
    (tmp_path / "none").mkdir()
    with pytest.raises(PelError, match=r"holds no world\.json"):
        read("zeshel", tmp_path / "none")
    with pytest.raises(PelError, match=r"empty\.json: holds no documents"):
        list(read("zeshel", write_lines(tmp_path / "empty.json", [])))


def test_an_id_of_another_world(folder):
    twice = {"document_id": id_of("lego", 2), "title": "x", "text": "x"}
    others = [{**twice, "document_id": f"Z{i}"} for i in range(200)]
    write_lines(folder / "yugioh.json", [*others, twice])
    with pytest.warns(UserWarning, match=r'yugioh\.json:201: the id "LEGO0002" is that of .*lego\.json:3; give'):
        assert len(list(read("zeshel", folder, types=["lego", "yugioh"]))) == 204
