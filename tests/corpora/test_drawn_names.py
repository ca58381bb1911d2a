"""Names of a KB as mentions: how many there are."""

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_pel.corpora.drawn_names import draw_names
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase


@pytest.mark.parametrize("n", [1, 2, 7, 11, 20])
def test_as_many_names_as_there_are_however_few_one_entity_has(tmp_path, n):
    aliases = tuple(f"name {i}" for i in range(9))
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "many", aliases), Entity("B", "one")])
    names = [one.span.text for one in draw_names(kb, n, np.random.default_rng(0), vocab=Vocab())]
    assert len(names) == len(set(names)) == min(n, 11) and (n < 2 or "one" in names)
