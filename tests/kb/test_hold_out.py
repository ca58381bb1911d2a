"""Entities left out on purpose: the same ones in any order, about as many as asked for, and whole types."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.hold_out import HoldOut
from spacy_pel.kb.knowledge_base import KnowledgeBase

ENTITIES = [Entity(f"C{i:04}", f"name {i}", types=("T1", "T2") if i % 10 == 0 else ("T2",)) for i in range(5000)]


def kept(hold_out, entities=ENTITIES):
    return {entity.id for entity in hold_out.kept(entities, Counter())}


def test_a_share():
    skipped: Counter[str] = Counter()
    left = {entity.id for entity in HoldOut(0.2, seed=3).kept(ENTITIES, skipped)}
    assert len(left) == pytest.approx(4000, abs=100) and skipped == {"entities held out": 5000 - len(left)}
    assert kept(HoldOut(0.2, seed=3), reversed(ENTITIES)) == left
    assert kept(HoldOut(0.2, seed=3), ENTITIES[:50]) == left & {entity.id for entity in ENTITIES[:50]}
    assert kept(HoldOut(0.2, seed=4)) != left
    assert kept(HoldOut(0.5, seed=3)) < left  # who is held out of a fifth is held out of a half


def test_types():
    assert kept(HoldOut(types=frozenset({"T1"}))) == {e.id for e in ENTITIES if e.types == ("T2",)}
    with pytest.raises(PelError, match='--hold-out-types: no entity has the type "T9"'):
        kept(HoldOut(types=frozenset({"T1", "T9"})))


def test_nothing():
    assert not HoldOut() and len(kept(HoldOut())) == 5000


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_is_none(share):
    with pytest.raises(PelError, match=f"--hold-out: {share}"):
        HoldOut(share)


def test_a_type_with_commas_stands_in_double_quotes(tmp_path):
    types = {"A": ["Technology, Industry, and Agriculture"], "B": ["Diseases"], "C": ["Technology"]}
    records = (json.dumps({"id": id, "name": f"name {id}", "types": own}) + "\n" for id, own in types.items())
    (tmp_path / "kb.jsonl").write_text("".join(records))
    for number, (given, left) in enumerate(
        [
            ('"Technology, Industry, and Agriculture", Diseases', {"C"}),
            ('Diseases,"Technology, Industry, and Agriculture"', {"C"}),
            ("Diseases, Technology", {"A"}),
        ]
    ):
        out = tmp_path / f"kb{number}"
        result = CliRunner().invoke(
            pel_app, ["build-kb", str(tmp_path / "kb.jsonl"), str(out), "--hold-out-types", given]
        )
        assert result.exit_code == 0 and set(KnowledgeBase(out)) == left, result.output
    with pytest.raises(PelError, match="in double quotes, as in '\"A, B\"'"):
        kept(HoldOut(types=frozenset({"T1", "Agriculture"})))


def test_build_kb(tmp_path):
    records = "".join(json.dumps({"id": e.id, "name": e.name, "types": e.types}) + "\n" for e in ENTITIES[:300])
    (tmp_path / "kb.jsonl").write_text(records)
    arguments = [
        "build-kb",
        tmp_path / "kb.jsonl",
        tmp_path / "kb",
        "--hold-out",
        0.2,
        "--hold-out-types",
        "T1",
        "--seed",
        3,
    ]
    result = CliRunner().invoke(pel_app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    expected = kept(HoldOut(0.2, frozenset({"T1"}), 3), ENTITIES[:300])
    assert set(KnowledgeBase(tmp_path / "kb")) == expected
    assert f"Left out: {300 - len(expected)} entities held out" in result.output
    arguments[6] = "T9"
    arguments[2] = tmp_path / "other"
    result = CliRunner().invoke(pel_app, list(map(str, arguments)))
    assert result.exit_code == 1 and not (tmp_path / "other").exists()
