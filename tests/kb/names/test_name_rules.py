"""Which names find mentions, and of which the case counts."""

from __future__ import annotations

import pytest

from spacy_pel.kb.names.name_rules import NameRules, may_be_abbreviation

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
    ],
)
def test_what_a_name_finds(name, text, fits):
    assert RULES.fit(name, text) is fits


@pytest.mark.parametrize(("text", "may"), [("ms", True), ("Ms.", True), ("nausea", False), ("il-2", False)])
def test_texts_whose_case_may_count(text, may):
    assert may_be_abbreviation(text) is may
