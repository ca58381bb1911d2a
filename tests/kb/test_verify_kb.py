"""`verify` finds every byte that was changed in the records, and look-ups name the damage."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.records.digest import TABLES, changed_tables, count_again
from spacy_pel.kb.verify import verify

FLIPS = 80


def entities() -> list[Entity]:
    return [
        Entity(f"E{i}", f"compound {i}", (f"alias {i}", f"{i} ester"), (f"T{i % 3}",), f"Definition {i}.", (f"X:{i}",))
        for i in range(60)
    ]


@pytest.fixture
def kb(tmp_path) -> KnowledgeBase:
    kb = KnowledgeBase.create(tmp_path / "kb", entities(), retired=[("old", "E1"), ("older", "E2")])
    kb.index([unit_vectors(60, 4)], dim=4, metric="cosine", fingerprint="a")
    kb.remove(["E1"])
    kb.add([Entity("N", "new one", ("nouveau",), ("T9",))], NewVectors("a", unit_vectors(1, 4)))
    return kb


def answers(kb: KnowledgeBase) -> tuple:
    matches = [kb.names.match(text) for text in ("compound 7", "aliases 33", "new on")]
    rows = kb.live_rows
    return (
        list(kb.entities()),
        kb.entity_index().search(unit_vectors(20, 4), 5)[1].tolist(),
        [kb[id] for id in kb.ids(rows)],
        [match.scores(rows).tolist() for match in matches],
        [match.best(5).tolist() for match in matches],
        [kb.named(f"{i} ESTER") for i in range(60)],
        kb.rows_of_types(["T1"]).tolist(),
        kb.rows_of_types(["T9"]).tolist(),
        kb.successors(),
        kb.same_concepts().tolist(),
        kb.type_counts(),
        kb.code_counts(),
        kb.meta["counts"],
    )


def test_a_flipped_byte_is_found_or_changes_nothing(kb, tmp_path):
    expected, random_ = answers(kb), random.Random(0)
    kb.close()
    data, found = (kb.path / "entities.sqlite").read_bytes(), 0
    for _ in range(FLIPS):
        path = shutil.copytree(kb.path, tmp_path / "flipped")
        flipped = bytearray(data)
        flipped[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        (path / "entities.sqlite").write_bytes(flipped)
        try:
            damaged = KnowledgeBase(path)
            problems = verify(damaged)
        except PelError:
            problems = ["it cannot be opened"]
        if problems:
            found += 1
            with pytest.raises(PelError):  # no other error, if any
                damaged = KnowledgeBase(path)
                answers(damaged)
                raise PelError("none")
        else:
            assert answers(damaged) == expected
        shutil.rmtree(path)
    assert found > FLIPS / 10


CHANGED = {
    "entities": "UPDATE entities SET definition = 'Definition 8.' WHERE id = 'E7'",
    "forms": "DELETE FROM forms WHERE row = 7",
    "types": "UPDATE types SET type = 'T0' WHERE row = 7",
    "vocabularies": "UPDATE vocabularies SET vocabulary = 'Y'",
    "retired": "UPDATE retired SET successor = 'E3'",
    "removed": "INSERT INTO removed VALUES (7)",
    "added_vectors": "UPDATE added_vectors SET vector = zeroblob(16)",
    "name_arrays": "UPDATE name_arrays SET value = zeroblob(length(value)) WHERE key = 'norms'",
    "postings": "UPDATE postings SET names = zeroblob(length(names)) WHERE gram = 7",
    "meta": "UPDATE meta SET value = replace(value, '60', '61') WHERE key = 'counts'",
}


@pytest.mark.parametrize("table, sql", CHANGED.items(), ids=CHANGED.keys())
def test_a_changed_table_is_named(kb, table, sql):
    assert verify(kb) == [] and {*CHANGED} == {*TABLES, "meta"}
    with closing(sqlite3.connect(kb.path / "entities.sqlite")) as connection, connection:
        assert connection.execute(sql).rowcount
    problems = verify(KnowledgeBase(kb.path))
    assert any(f'the table "{table}" is not as spacy-pel has written it' in problem for problem in problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda kb: kb.remove(["E5"]),
        lambda kb: kb.update([Entity("E5", "five")], NewVectors("a", unit_vectors(1, 4))),
    ],
    ids=["remove", "update"],
)
def test_a_kb_that_another_process_changes_meanwhile_is_read_again(kb, monkeypatch, change):
    monkeypatch.setattr("spacy_pel.kb.verify.BLOCK", 10)
    monkeypatch.setattr("spacy_pel.kb.records.store.PARAMETERS", 10)
    others = [KnowledgeBase(kb.path)]
    assert verify(kb, lambda n: change(others.pop()) if others else None) == []


def test_a_kb_that_changes_all_the_time_is_not_said_to_be_damaged_only(kb, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.verify.BLOCK", 100)
    other, numbers = KnowledgeBase(kb.path), iter(range(5, 50))
    first, *_ = verify(kb, lambda n: other.remove([f"E{next(numbers)}"]))
    assert first.endswith("kb: changed each time that it was read, so that nothing else of this is sure")


def test_hashes_follow_every_change(kb, tmp_path):
    """As they are kept up to date, they are those of the whole tables."""
    changes = [
        lambda kb: kb.add(
            [Entity("M", "more", ("more", "M"), ("T1", "T1"), "", ("X:1", "Y:1"))], NewVectors("a", unit_vectors(1, 4))
        ),
        lambda kb: kb.add([Entity("old", "old")], NewVectors("a", unit_vectors(1, 4))),
        lambda kb: kb.update([Entity("E5", "five"), Entity("N", "new two")], NewVectors("a", unit_vectors(2, 4))),
        lambda kb: kb.index([np.ones((62, 2), "float32")], dim=2, metric="dot", fingerprint="b"),
        lambda kb: kb.add([Entity("K", "k")], NewVectors("b", unit_vectors(1, 2))),
        lambda kb: kb.remove(["E2", "K"]),
        lambda kb: kb.drop_index("b"),
        lambda kb: kb.compact(),
        lambda kb: kb.remove(["E59"]),
        lambda kb: kb.index([np.ones((60, 4), "float32")], dim=4, metric="dot", fingerprint="a"),
    ]
    for number, change in enumerate(changes):
        change(kb)
        bare = kb.copy_to(tmp_path / f"bare-{number}", indexes=())
        for one in (kb, bare):
            with closing(sqlite3.connect(one.path / "entities.sqlite")) as connection:
                assert changed_tables(connection, one.meta) == []
                again = {}
                count_again(connection, again)
                assert again["hashes"] == {key: one.meta["hashes"][key] for key in again["hashes"]}


def test_damage_in_a_look_up_is_named_with_what_to_run(kb):
    with closing(sqlite3.connect(kb.path / "entities.sqlite")) as connection, connection:
        connection.execute("UPDATE entities SET aliases = '[\"', types = '5' WHERE id = 'E7'")
        connection.execute("UPDATE name_arrays SET value = X'00' WHERE key = 'norms'")
        connection.execute("DELETE FROM postings")
    damaged = KnowledgeBase(kb.path)
    for look_up in (lambda: damaged["E7"], lambda: list(damaged.values()), lambda: damaged.names.match("compound")):
        with pytest.raises(PelError, match=r"its content is damaged \(.*`python -m spacy pel kb verify"):
            look_up()


@pytest.mark.parametrize("aliases", ["5", "[5]", "[null]", '["'])
def test_aliases_that_are_no_texts_are_damage(kb, aliases):
    """Those of an added entity are compared by its record."""
    with closing(sqlite3.connect(kb.path / "entities.sqlite")) as connection, connection:
        connection.execute("UPDATE entities SET aliases = ? WHERE id = 'N'", (aliases,))
    damaged = KnowledgeBase(kb.path)
    with pytest.raises(PelError, match=r"its content is damaged \(.*`python -m spacy pel kb verify"):
        damaged.names.match("new").scores(damaged.live_rows[-1:])


def test_a_missing_id_is_a_key_error_and_says_so(kb):
    with pytest.raises(KeyError) as error:
        kb["nobody"]
    assert isinstance(error.value, PelError) and str(error.value).startswith(
        f'{kb.path}: no entity has the id "nobody"'
    )
    assert kb.get("nobody") is None and "nobody" not in kb
