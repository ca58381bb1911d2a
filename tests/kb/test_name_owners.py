"""The names of a KB and who has them, read while it changes."""

from __future__ import annotations

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.name_owners import names_and_owners


@pytest.mark.parametrize(
    "change",
    [
        lambda kb: kb.add([Entity("new", "new")]),
        lambda kb: kb.update([Entity("5", "new")]),
        lambda kb: kb.remove(["5"]),
    ],
)
def test_a_change_between_both_readings_is_named(kb, change):
    names, _ = names_and_owners(kb)
    change(KnowledgeBase(kb.path))
    with pytest.raises(PelError, match="has changed while its names were read; repeat"):
        list(names)
    again, owners = names_and_owners(kb)
    assert len(list(again)) == owners.n_vectors
