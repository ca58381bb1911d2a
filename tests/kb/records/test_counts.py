"""Counts over entities as they stream by."""

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.records.counts import Counts


def test_an_entity_counts_once_for_a_type_or_source_that_it_names_twice():
    counts = Counts()
    list(counts.count([Entity("1", "a", types=("T", "T", "U"), source="A+A+B"), Entity("2", "b", types=("T",))]))
    assert counts.types == {"T": 2, "U": 1} and counts.sources == {"A": 1, "B": 1}
