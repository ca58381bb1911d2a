"""The forms under which names are looked up, and the names that an entity has once."""

from __future__ import annotations

import pytest

from spacy_pel.kb.names.normal_form import distinct_forms, distinct_names


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["Fever", "", " \t", "fever"], ["Fever"]),
        (["", "Fever", "Pyrexia"], ["Fever", "Pyrexia"]),
        (["+/-", " "], ["+/-"]),
        ([" ", ""], [" "]),
    ],
)
def test_a_blank_name_counts_only_where_there_is_no_other(names, distinct):
    assert distinct_names(names[0], names[1:]) == distinct
    assert distinct_forms(names[0], names[1:]) == [name.strip().lower() for name in distinct]
