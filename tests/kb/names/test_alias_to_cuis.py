"""Code for scispaCy's KB on ours; where scispaCy is installed, beside its own."""

from __future__ import annotations

import json

import pytest
from tiny import ENTITIES, make_kb


@pytest.fixture
def kb(tmp_path):
    return make_kb(tmp_path / "kb")


def test_by_hand(kb):
    entity = kb.cui_to_entity["D009203"]
    assert (entity.concept_id, entity.canonical_name) == ("D009203", "Myocardial Infarction")
    assert kb.alias_to_cuis["heart attack"] == kb.alias_to_cuis["Myocardial Infarction"] == {"D009203"}
    assert None not in kb.alias_to_cuis and kb.alias_to_cuis.get(3) is None
    assert "Heart Attack" not in kb.alias_to_cuis and kb.alias_to_cuis.get("nothing", set()) == set()
    assert (
        len(kb.alias_to_cuis) == len(list(kb.alias_to_cuis)) == len({n for e in ENTITIES for n in (e.name, *e.aliases)})
    )


def test_as_scispacy_has_it(kb, tmp_path):
    linking_utils = pytest.importorskip("scispacy.linking_utils", reason="the extra `scispacy` is not installed")
    records = [
        {"concept_id": e.id, "canonical_name": e.name, "aliases": list(e.aliases), "types": list(e.types)}
        | {"definition": e.definition or None}
        for e in ENTITIES
    ]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    theirs = linking_utils.KnowledgeBase(str(tmp_path / "kb.jsonl"))
    assert set(theirs.cui_to_entity) == set(kb.cui_to_entity)
    for id_, entity in theirs.cui_to_entity.items():
        ours = kb.cui_to_entity[id_]
        for field in ("concept_id", "canonical_name"):
            assert getattr(ours, field) == getattr(entity, field)
        for field in ("aliases", "types"):
            assert list(getattr(ours, field)) == list(getattr(entity, field))
        assert ours.definition == (entity.definition or "")
    assert {alias: set(ids) for alias, ids in theirs.alias_to_cuis.items()} == dict(kb.alias_to_cuis)
