"""Many texts looked up by the records of a KB."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import make_kb

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.names.known_names import known_names, only_within, rows_of_forms
from spacy_pel.kb.names.name_rules import NameRules
from spacy_pel.kb.names.normal_form import normalized
from spacy_pel.kb.names.plurals import singulars

ENTITIES = [
    Entity("1", "Heart Failure", ("HF",)),
    Entity("2", "heart failure", ("Hf",)),
    Entity("3", "Myocardial Infarction", ("MI", "AMI")),
]
RULES = NameRules(min_length=2, stop_words={"it"})


@pytest.fixture
def records(tmp_path):
    return make_kb(tmp_path / "kb", ENTITIES).records


def known(texts, records, lang="en"):
    rows = rows_of_forms({normalized(one) for text in texts for one in (text, *singulars(text, lang))}, records)
    return known_names(texts, rows, records, RULES, lang)


def test_rows_of_forms(records):
    found = rows_of_forms(["heart failure", "mi", "nosuch"], records)
    assert {form: sorted(rows) for form, rows in found.items()} == {"heart failure": [0, 1], "mi": [2]}
    assert rows_of_forms([], records) == {}


def test_rows_within_others():
    rows = {"a": [0, 5, 9], "b": [3], "c": [10]}
    assert only_within(rows, np.array([2, 5, 9])) == {"a": [5, 9]}
    assert only_within(rows, np.array([10])) == {"c": [10]}


def test_case_counts_where_every_name_is_an_abbreviation(records):
    texts = ["HEART-failure", "HF", "hf", "MI", "mi", "Mi.", "it", "nosuch"]
    assert known(texts, records) == {"HEART-failure", "HF", "hf", "MI"}


def test_marks_of_the_text_must_be_in_the_name(records):
    assert known(["heart, failure", "heart failure", "(heart) failure"], records) == {"heart failure"}


def test_an_entity_that_is_removed_meanwhile_finds_nothing(tmp_path):
    kb = make_kb(tmp_path / "kb", ENTITIES)
    rows = rows_of_forms(["mi"], kb.records)
    kb.remove(["3"])
    assert known_names(["MI"], rows, kb.records, RULES) == set()


def test_a_plural_is_found_by_its_singular(records):
    texts = ["heart failures", "AMIs", "amis", "AMIS", "HFs", "heart-failures", "heart, failures"]
    assert known(texts, records) == {"heart failures", "AMIs", "heart-failures"}
    assert known(texts, records, lang="de") == set()


def test_a_stop_word_is_no_plural(tmp_path):
    records = make_kb(tmp_path / "kb", [Entity("1", "Doe"), Entity("2", "It")]).records
    rows = rows_of_forms(["doe", "it"], records)
    assert known_names(["does", "Does"], rows, records, NameRules(), "en") == {"does", "Does"}
    assert known_names(["does", "Does"], rows, records, NameRules(stop_words={"does"}), "en") == set()


def test_more_texts_than_a_query_has_parameters(records):
    texts = [f"nosuch {number}" for number in range(3000)] + ["heart failure"]
    assert known(texts, records) == {"heart failure"}


def test_names_as_they_are_written(records):
    assert records.written_names([0, 2, 99]) == {0: ["Heart Failure", "HF"], 2: ["Myocardial Infarction", "MI", "AMI"]}
