"""Codes in other vocabularies: of an entity, of all, as a filter, while the KB changes, in KBs of older versions."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from kb.test_formats import FORMAT_3

from spacy_pel.errors import PelError
from spacy_pel.kb.allowed import Allowed
from spacy_pel.kb.codes import checked_codes_of, codes_in, codes_of
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.verify import verify

ENTITIES = [
    Entity("C1", "heart attack", (), ("Disease",), "", ("ICD10CM:I21", "SNOMEDCT_US:22298006", "ICD10CM:I21.9")),
    Entity("C2", "fever", (), ("Sign",), "", ("HPO:HP:0001945", "SNOMEDCT_US:386661006", "SNOMEDCT_US:386661006")),
    Entity("C3", "aspirin", (), ("Chemical",), "", ("RXNORM:1191", "D001241", "https://a.org/b", "MSH:", ":7")),
    Entity("C4", "cold", (), ("Disease",)),
]


@pytest.fixture
def kb(tmp_path) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", ENTITIES)


def ids(kb: KnowledgeBase, *vocabularies: str, types: tuple[str, ...] | None = None) -> list[str]:
    allowed = Allowed(None if types is None else frozenset(types), frozenset(vocabularies))
    return kb.ids(kb.rows_allowed(allowed)).tolist()


def test_codes_of_an_entity(kb):
    assert codes_of(kb, "C1", ["ICD10CM", "HPO"]) == {"ICD10CM": ["I21", "I21.9"], "HPO": []}
    assert codes_in(kb["C2"].xrefs, "HPO") == ["HP:0001945"]  # all behind the first colon
    assert [codes_in(kb["C3"].xrefs, odd) for odd in ("https", "MSH", "D001241")] == [[]] * 3
    assert codes_in(kb["C2"].xrefs, "SNOMEDCT_US") == ["386661006"]  # once
    assert [checked_codes_of(kb, id, "HPO") for id in ("C2", "C4", "NIL", "")] == [["HP:0001945"], [], [], []]
    with pytest.raises(PelError, match='no entity has the id "C9"'):
        checked_codes_of(kb, "C9", "HPO")
    assert [codes_of(kb, id, ["HPO"]) for id in ("C9", "NIL")] == [{"HPO": []}] * 2
    with pytest.raises(PelError, match=r'of the vocabulary "HP"; the commonest .* SNOMEDCT_US, HPO, ICD10CM, RXNORM'):
        checked_codes_of(kb, "C1", "HP")


def test_entities_with_codes(kb):
    assert kb.code_counts() == {"SNOMEDCT_US": 2, "HPO": 1, "ICD10CM": 1, "RXNORM": 1}
    assert ids(kb, "SNOMEDCT_US") == ["C1", "C2"] and ids(kb, "RXNORM", "ICD10CM") == ["C1", "C3"]
    assert ids(kb, "SNOMEDCT_US", types=("Sign", "Chemical")) == ["C2"]
    assert ids(kb, "HPO", types=("Disease",)) == ids(kb, "HPO", types=()) == []
    kb.check_vocabularies(["HPO", "RXNORM"])
    for ask in (lambda: ids(kb, "HPO", "https"), lambda: kb.check_vocabularies(["HPO", "https"])):
        with pytest.raises(PelError, match=r'no entity has a code of the vocabulary "https"; .* SNOMEDCT_US, HPO'):
            ask()


def test_no_codes_at_all(tmp_path):
    with pytest.raises(PelError, match='a code of the vocabulary "HPO", or any other; ask without codes'):
        KnowledgeBase.create(tmp_path / "kb", [Entity("C1", "cold")]).check_vocabularies(["HPO"])


def test_changes_hold_at_once(kb):
    other = KnowledgeBase(kb.path)
    assert ids(other, "HPO") == ["C2"] and ids(other, "SNOMEDCT_US") == ["C1", "C2"]
    kb.add([Entity("C5", "cough", xrefs=("HPO:HP:0012735", "NEW:1"))])
    kb.update([replace(ENTITIES[1], xrefs=("NEW:2",))])
    kb.remove(["C1"])
    for one in (kb, other, KnowledgeBase(kb.path)):
        assert one.code_counts() == {"NEW": 2, "HPO": 1, "RXNORM": 1}
        assert sorted(ids(one, "NEW")) == ["C2", "C5"] and ids(one, "HPO") == ["C5"] and verify(one) == []
        with pytest.raises(PelError, match='"SNOMEDCT_US"'):
            one.check_vocabularies(["SNOMEDCT_US"])
    kb.compact()
    kb = KnowledgeBase(kb.path)
    assert kb.ids(kb.live_rows).tolist() == ["C3", "C4", "C5", "C2"]
    assert ids(kb, "NEW") == ["C5", "C2"] and ids(kb, "RXNORM") == ["C3"] and verify(kb) == []


def test_a_kb_of_an_older_version_has_codes_before_its_first_change_and_after(tmp_path):
    shutil.unpack_archive(FORMAT_3, tmp_path / "kb")
    with sqlite3.connect(tmp_path / "kb" / "entities.sqlite") as connection:
        connection.execute("""UPDATE entities SET xrefs = '["ICD10CM:R23.0"]' WHERE id = 'D4'""")
    connection.close()
    kb = KnowledgeBase(tmp_path / "kb")
    has_table = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'vocabularies'"
    for there in (0, 1):
        with sqlite3.connect(kb.path / "entities.sqlite") as connection:
            assert connection.execute(has_table).fetchone() == (there,)
        connection.close()
        assert kb.code_counts() == {"ICD10CM": 1} and ids(kb, "ICD10CM") == ["D4"] and verify(kb) == []
        kb.drop_index("none")  # any change
    copy = kb.copy_to(tmp_path / "copy")
    assert copy.code_counts() == {"ICD10CM": 1} and verify(copy) == []


def test_a_filter_reads_no_records(kb):
    """What a KB of millions needs: the vocabularies are found through their table."""
    plan = "EXPLAIN QUERY PLAN SELECT row FROM vocabularies WHERE vocabulary = 'HPO'"
    with sqlite3.connect(kb.path / "entities.sqlite") as connection:
        assert "SEARCH vocabularies USING PRIMARY KEY" in str(connection.execute(plan).fetchall())
        connection.execute("UPDATE entities SET xrefs = '[]'")
    connection.close()
    assert KnowledgeBase(kb.path).code_counts()["SNOMEDCT_US"] == 2
    assert any("entities" in problem for problem in verify(KnowledgeBase(kb.path)))


def test_what_another_process_adds_and_removes_is_there_for_every_question(kb):
    other = "import sys; from spacy_pel import Entity, KnowledgeBase; kb = KnowledgeBase(sys.argv[1]); "

    def run(change: str) -> None:
        subprocess.run([sys.executable, "-c", other + change, str(kb.path)], check=True)

    run("kb.add([Entity('N1', 'new'), Entity('N2', 'newer')])")
    assert "N1" in kb and len(kb) == 6 and list(kb) == ["C1", "C2", "C3", "C4", "N1", "N2"]
    run("kb.remove(['C1', 'N1'])")
    assert list(kb.entities()) == [*ENTITIES[1:], kb["N2"]] and "N1" not in kb and len(kb) == 4
    run("kb.add([Entity('N3', 'newest')])")
    assert kb.n_rows == 7 and kb.ids(kb.live_rows).tolist() == list(kb)
