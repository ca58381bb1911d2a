"""KILT's knowledge source as entities."""

from __future__ import annotations

import pytest
from on_disk import write_lines

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.readers import read

ARTICLE = {
    "_id": "290",
    "wikipedia_id": "290",
    "wikipedia_title": "Albedo",
    "text": ["Albedo\n", "Albedo is light.\n", " It is a share.\n", "Section::::History.\n", "Long ago.\n"],
}


def test_an_article_up_to_its_first_heading(tmp_path):
    others = [{"wikipedia_id": "1", "wikipedia_title": "A", "text": ["An A."]}, {"wikipedia_id": "2"}]
    others[1] |= {"wikipedia_title": "B"}
    path = write_lines(tmp_path / "kilt.json", [ARTICLE, *others])
    assert list(read("kilt", path)) == [
        Entity("290", "Albedo", definition="Albedo is light. It is a share."),
        Entity("1", "A", definition="An A."),
        Entity("2", "B"),
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"text": "Albedo"}, '"text" is "Albedo"; make it a list of strings'),
        ({"wikipedia_title": ""}, '"wikipedia_title" is missing or empty; write {"wikipedia_id"'),
        ({"wikipedia_id": None}, '"wikipedia_id" is missing or empty; write {"wikipedia_id"'),
    ],
)
def test_an_article_that_is_not_right(tmp_path, changed, message):
    path = write_lines(tmp_path / "kilt.json", [ARTICLE | changed])
    with pytest.raises(PelError) as error:
        list(read("kilt", path))
    assert f"{path}:1: {message}" in str(error.value)
