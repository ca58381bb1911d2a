"""Which names find which texts."""

from __future__ import annotations

import pytest

from spacy_pel.kb.names.name_rules import NameRules, depends_on_writing

RULES = NameRules(min_length=2, stop_words={"all", "no"})


@pytest.mark.parametrize("name", ["MS", "heart failure", "IL-2", "α1", "心筋"])
def test_looked_for(name):
    assert RULES.allow(name)


@pytest.mark.parametrize("name", ["M", "ALL", "no", "12-34", "--"])
def test_not_looked_for(name):
    assert not RULES.allow(name)


@pytest.mark.parametrize(
    ("name", "text", "fits"),
    [
        ("MS", "MS", True),
        ("MS", "Ms", False),
        ("MS", "Ms.", False),
        ("Ms", "MS", True),
        ("NAUSEA", "nausea", True),  # six capitals
        ("IL-2", "il 2", True),
        ("ALL", "ALL", False),
        ("No", "No.", False),
        ("heart failure", "heart", False),
        ("Diabetes, Type 2", "diabetes type 2", True),
        ("Diabetes, Type 2", "diabetes, type-2", True),
        ("diabetes type 2", "diabetes, type 2", False),
        ("leukemia (AML)", "leukemia (AML", False),
        ("heart failure", "heart. Failure", False),
        ("Hepatitis B", "hepatitis B.", True),
        ("BRAF V600E", "BRAF V600E.", True),
        ("Trisomy 21", "trisomy 21.", True),
        ("TNF", "TNF.", True),
        ("U.S.A.", "U.S.A.", True),
        ("Jan", "Jan.", False),  # an abbreviation: not the end of a sentence
        ("ab", "A. B.", False),
        ("St. John's Wort", "st. john’s wort", True),
        ("2,4-Dinitrophenol", "2,4-dinitrophenol", True),
    ],
)
def test_what_a_name_finds(name, text, fits):
    assert RULES.fit(name, text) is fits


@pytest.mark.parametrize(
    ("text", "depends"),
    [("ms", True), ("Ms.", True), ("heart, failure", True), ("nausea", False), ("il-2", False)],
)
def test_texts_for_which_names_are_read_as_they_are_written(text, depends):
    assert depends_on_writing(text) is depends
