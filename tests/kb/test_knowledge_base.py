"""The KB folder: records, look-ups, vectors, copies, and what is refused."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from on_disk import contents, names

from spacy_pel.errors import PelError
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.index.on_disk import copy_files
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.kb.verify import verify


def numbered(n: int) -> list[Entity]:
    return [Entity(id=f"C{i:07}", name=f"compound {i}") for i in range(n)]


def answers(kb: KnowledgeBase, queries: np.ndarray) -> tuple:
    scores, rows = kb.entity_index("abc").search(queries, 3)
    return scores.tolist(), kb.ids(rows).tolist(), kb["D001241"], os.getpid()


# --- records ---------------------------------------------------------------------------------------------------------


def test_many_at_once_are_those_that_it_has(kb):
    ids = [entity.id for entity in kb.entities()][:3]
    assert kb.get_many([*ids, "nobody", ids[0]]) == {id_: kb[id_] for id_ in ids}
    assert kb.get_many([]) == {}


def test_an_unknown_id_is_named_in_other_processes_too(kb):
    with pytest.raises(KeyError) as caught:
        kb["nobody"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


def test_records_round_trip_in_order(kb, entities):
    assert list(kb.entities()) == entities
    assert list(kb.values()) == entities
    assert list(kb) == [entity.id for entity in entities]
    assert [kb[entity.id] for entity in entities] == entities
    assert len(kb) == len(entities)


def test_meta(kb):
    assert kb.meta["counts"] == {"entities": 5, "aliases": 6, "definitions": 1, "types": 3}
    assert (kb.meta["source"], kb.meta["release"], kb.meta["licence"]) == ("MeSH", "2025", "open")
    assert kb.meta["format_version"] == 4 and kb.meta["indexes"] == {} and not kb.indexes


def test_mapping(kb, entities):
    assert kb.cui_to_entity["心筋梗塞"].aliases == ("احتشاء عضل القلب", "💔")
    assert "D001241" in kb and "D999999" not in kb
    assert 5 not in kb and "5" in kb
    assert kb.get("D999999") is None
    with pytest.raises(KeyError, match="D999999"):
        kb["D999999"]
    assert kb == kb and kb != KnowledgeBase(kb.path) and len({kb}) == 1


def test_half_a_surrogate_pair_is_in_no_kb(kb):
    half = "D\udcff"  # what the shell's $'D\xff' comes as
    assert half not in kb and kb.get(half) is None
    assert list(kb.get_many([half, "5"])) == ["5"] and kb.rows([half, "5"]) == {"5": 3} and kb.successors([half]) == {}
    for look_up, message in (
        (lambda: kb[half], r'no entity has the id "D\\xff"'),
        (lambda: kb.remove(["5", half]), r'"D\\xff" is not in the KB; nothing was changed'),
        (lambda: kb.rows_of_types([half]), r'no entity has the type "D\\xff"'),
        (lambda: kb.check_vocabularies([half]), r'no entity has a code of the vocabulary "D\\xff"'),
    ):
        with pytest.raises(PelError, match=message):
            look_up()
    assert "5" in kb


def test_one_text_is_not_read_letter_by_letter(kb):
    for call, message in (
        (
            lambda: kb.rows_of_types("Diseases"),
            r"kb: types = 'Diseases'; make it a list of texts, such as \[\"Diseases",
        ),
        (lambda: kb.remove("5"), r"kb: ids = '5'; make it a list of texts, such as \[\"5\"\]"),
        (lambda: kb.remove([5]), r"kb: ids = \[5\]; make it a list of texts"),
        (lambda: kb.remove(5), r"kb: ids = 5; make it a list of texts"),
        (lambda: kb.rows_of_types(None), r"kb: types = None; make it a list of texts"),
    ):
        with pytest.raises(PelError, match=message):
            call()
    assert "5" in kb and kb.rows_of_types({"Diseases"}).tolist() == [1]


def test_rows_and_ids_in_batches(tmp_path):
    entities = numbered(2500)
    kb = KnowledgeBase.create(tmp_path / "kb", entities)
    assert list(kb.entities()) == entities and list(kb) == [entity.id for entity in entities]
    assert kb.rows(kb) == {entity.id: row for row, entity in enumerate(entities)}
    assert kb.rows(["C0000003", "unknown", "C0002499", "C0000003"]) == {"C0000003": 3, "C0002499": 2499}
    assert kb.rows([]) == {}
    rows = np.random.default_rng(0).integers(-1, 2500, size=(40, 64))
    expected = [[entities[row].id if row >= 0 else "" for row in line] for line in rows]
    assert kb.ids(rows).tolist() == expected
    assert kb.ids(np.array([], dtype=np.int64)).shape == (0,)
    assert kb.ids(np.array(7)).item() == "C0000007"
    for row in (-2, 2500):
        with pytest.raises(IndexError, match=str(row)):
            kb.ids(np.array([0, row]))


def test_entities_that_are_updated_as_they_are_read_come_once(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", numbered(1000))
    read = []
    for entity in kb.entities():
        read.append(entity.id)
        if len(read) <= 3:
            kb.update([Entity(entity.id, entity.name, aliases=("new",))])
    assert read == [entity.id for entity in numbered(1000)]
    assert list(kb)[:1] == read[3:4] and list(kb)[-3:] == read[:3]


@pytest.mark.parametrize(
    ("change", "is_whole"),
    [
        (lambda kb: kb.add([Entity("new", "new")]), True),
        (lambda kb: kb.remove(["C0000999"]), True),
        (lambda kb: kb.update([Entity("C0000003", "new")]), True),
        (lambda kb: kb.update([Entity("C0000950", "new")]), False),
    ],
)
@pytest.mark.parametrize("scan", [KnowledgeBase.entities, KnowledgeBase.__iter__])
def test_a_change_that_another_makes_as_a_kb_is_read_loses_no_entity_in_silence(tmp_path, scan, change, is_whole):
    kb = KnowledgeBase.create(tmp_path / "kb", numbered(1800))
    reading = scan(kb)
    next(reading)
    change(KnowledgeBase(kb.path))
    with nullcontext() if is_whole else pytest.raises(PelError, match="has changed while it was read"):
        assert len(list(reading)) >= 1798
    assert len(list(scan(kb))) == len(kb)


def test_a_kb_that_is_compacted_as_it_is_read_is_refused(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", numbered(1800))
    kb.remove(["C0000001"])
    reading = kb.entities()
    next(reading)
    kb.compact()
    with pytest.raises(PelError, match="has changed while it was read"):
        list(reading)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": 123}, r'the entity "123" \(x\): its id is 123; make it a string'),
        ({"id": b"C1"}, "its id is b'C1'; make it a string"),
        ({"name": None}, r'the entity "C1" \(None\): its name is None; make it a string'),
        ({"definition": None}, "its definition is None; make it a string"),
        ({"source": 5}, "its source is 5; make it a string"),
        ({"aliases": None}, r"its aliases are None; make them a tuple of strings, such as \("),
        ({"aliases": ("MS", 5)}, r"its aliases are \('MS', 5\); make them a tuple of strings"),
        ({"types": 5}, "its types are 5; make them a tuple"),
        ({"xrefs": (None,)}, r"its xrefs are \(None,\); make them a tuple"),
        ({"type_names": None}, "its type_names are None; make them a tuple"),
        ({"name": "x\ud800"}, r"its name is 'x\\ud800'; make it a string"),
        ({"aliases": ("\udfff",)}, r"its aliases are \('\\udfff',\); make them"),
    ],
)
def test_a_field_of_another_type_is_named(fields, message):
    with pytest.raises(PelError, match=message):
        Entity(**{"id": "C1", "name": "x"} | fields)


@pytest.mark.parametrize("change", ["add", "update"])
def test_what_is_no_entity_is_not_added(tmp_path, change):
    kb = KnowledgeBase.create(tmp_path / "kb", numbered(3))
    with pytest.raises(PelError, match=r"\(list\) is no list of entities; give some"):
        getattr(kb, change)([{"id": "C0000001", "name": "a dict"}])
    assert len(kb) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda kb: kb, r"'D001241' \(str\) is no entity; give some, .*, or those of a KB, kb.entities\(\)"),
        (lambda kb: [{"id": "A"}], r"{'id': 'A'} \(dict\) is no entity; give some, such as \[Entity"),
        (lambda kb: kb["5"], r"Entity\(id='5', .* \(Entity\) is no list of entities; give some"),
        (lambda kb: None, r"None \(NoneType\) is no list of entities; give some"),
    ],
)
def test_no_kb_is_made_of_what_is_no_entity(kb, tmp_path, given, message):
    with pytest.raises(PelError, match=message):
        KnowledgeBase.create(tmp_path / "new", given(kb))
    assert names(tmp_path) == {"kb"}


def test_retired_ids_may_come_as_a_dict(kb, tmp_path):
    new = KnowledgeBase.create(tmp_path / "new", kb.entities(), retired={"old": "5", "gone": "nobody"})
    assert new.successors() == {"old": "5"}
    assert KnowledgeBase.create(tmp_path / "newer", new.entities(), retired=new.successors()).successors(["old"])


@pytest.mark.parametrize("pair", ["XA", ("X",), ("X", 5), ("X", "\ud800"), None])
def test_what_is_no_pair_of_ids_is_named(kb, tmp_path, pair):
    with pytest.raises(PelError, match=r"retired: .* is no pair of ids; give \(old id, successor\)"):
        KnowledgeBase.create(tmp_path / "new", kb.entities(), retired=[("old", "5"), pair])
    assert names(tmp_path) == {"kb"}


def test_lists_in_an_entity_become_tuples(kb):
    given = Entity("C1", "x", aliases=["y"], types={"T": "a dict"}, xrefs=(one for one in ["V:1"]), type_names=["t"])
    assert given == Entity("C1", "x", ("y",), ("T",), "", ("V:1",), "", ("t",)) and len({given, given}) == 1
    kb.add([given])
    assert kb["C1"] == given
    kb.update([Entity("C1", "z")], instead_of=[given])
    assert kb["C1"].name == "z"


@pytest.mark.parametrize("name", ["", "  "])
def test_an_entity_without_a_name_is_not_written(kb, entities, tmp_path, name):
    nameless = Entity("X", name)
    for change in (lambda: kb.add([nameless]), lambda: KnowledgeBase.create(tmp_path / "new", [*entities, nameless])):
        with pytest.raises(PelError, match='the entity "X" has no name; give every entity an "id" and a "name"'):
            change()
    assert "X" not in kb and not (tmp_path / "new").exists()


def test_create_refuses_double_ids_and_no_entities(tmp_path):
    double = [*numbered(3), Entity(id="C0000001", name="again")]
    with pytest.raises(PelError, match='"C0000001" comes twice, as entity 2 and as entity 4'):
        KnowledgeBase.create(tmp_path / "kb", double)
    with pytest.raises(PelError, match="no entities"):
        KnowledgeBase.create(tmp_path / "kb", [])
    assert names(tmp_path) == set()


# --- vectors ---------------------------------------------------------------------------------------------------------


def test_index_then_search(indexed, vectors, entities):
    scores, rows = indexed.entity_index().search(vectors, 2)
    assert rows[:, 0].tolist() == list(range(len(entities)))
    assert scores[:, 0] == pytest.approx(1.0)
    again = KnowledgeBase(indexed.path)
    index = again.indexes["abc"]
    assert (index.fingerprint, index.dim, index.metric, index.index_type, index.kind) == (
        "abc",
        8,
        "cosine",
        "flat",
        "entity",
    )
    assert (index.n_vectors, index.n_missing) == (5, 0)
    assert answers(again, vectors) == answers(indexed, vectors)
    assert again.size_bytes == sum(map(len, contents(again.path).values()))


def test_index_again_replaces_the_vectors(indexed, vectors):
    other = KnowledgeBase(indexed.path)
    before = answers(other, vectors)
    held = other.entity_index()
    indexed.index([-vectors], dim=8, metric="dot", fingerprint="abc")
    assert set(contents(indexed.path)) == {"entities.sqlite", "indexes/abc/vectors-2.npy", "indexes/abc/owners-2.npy"}
    assert indexed.entity_index().metric == "dot"
    assert indexed.entity_index().search(-vectors, 1)[1].ravel().tolist() == [0, 1, 2, 3, 4]
    assert held.search(vectors, 3)[0].tolist() != before[0]  # of the same encoder: at once what is there now
    assert answers(other, -vectors) == before and held is other.entity_index()


def nothing_finite(vectors):
    vectors = vectors.copy()
    vectors[3, 2] = np.nan
    return [vectors[:2], vectors[2:]]


def failing(vectors):
    yield vectors[:2]
    raise RuntimeError("the encoder failed")


@pytest.mark.parametrize(
    "blocks, message",
    [
        (nothing_finite, "Vector 3 is not finite"),
        (lambda vectors: [vectors[:4]], "Got 4 vectors, expected 5"),
        (lambda vectors: [vectors, vectors], "Got more vectors, expected 5"),
        (lambda vectors: [], "Got 0 vectors, expected 5"),
        (lambda vectors: [vectors[:, :7]], r"shape \(5, 7\), expected \(n, 8\)"),
        (failing, "the encoder failed"),
    ],
)
def test_bad_vectors_leave_the_kb_as_it_was(indexed, vectors, blocks, message):
    before, there, meta = answers(indexed, vectors), contents(indexed.path), dict(indexed.meta)
    with pytest.raises((PelError, RuntimeError), match=message):
        indexed.index(blocks(vectors), dim=8, metric="cosine", fingerprint="new")
    assert contents(indexed.path) == there
    for kb in (indexed, KnowledgeBase(indexed.path)):
        assert kb.meta == meta and answers(kb, vectors) == before


@pytest.mark.parametrize("change", ["compact", "index"])
def test_a_folder_that_cannot_be_written_is_named(indexed, vectors, monkeypatch, change):
    def denied(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    before = answers(indexed, vectors)
    monkeypatch.setattr("spacy_pel.kb.index.vectors.write_array", denied)
    with pytest.raises(
        PelError, match=rf"{indexed.path}: cannot be changed \(.* make the folder and all in it writable"
    ):
        if change == "compact":
            indexed.compact()
        else:
            indexed.index([vectors], dim=8, metric="cosine", fingerprint="def")
    assert answers(KnowledgeBase(indexed.path), vectors) == before


def test_a_replaced_file_that_cannot_be_removed_stops_no_change(indexed, vectors, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.names.tables.MOST_NAMES", 1)
    indexed.compact()
    unlink = Path.unlink

    def mapped_elsewhere(path, missing_ok=False):
        if path.name.startswith(("vectors-", "owners-", "grams-")) and path.suffix != ".part":
            raise PermissionError(errno.EACCES, "being used by another process", str(path))
        unlink(path, missing_ok)

    before = contents(indexed.path)
    with monkeypatch.context() as windows:
        windows.setattr(Path, "unlink", mapped_elsewhere)
        indexed.index([-vectors], dim=8, metric="cosine", fingerprint="abc")
        indexed.remove(["5"])
        indexed.compact()
        assert before.keys() < contents(indexed.path).keys()
        assert len(KnowledgeBase(indexed.path)) == 4 and verify(indexed) == []
    indexed.remove(["D001241"])
    assert len([name for name in contents(indexed.path) if "vectors-" in name or "grams-" in name]) == 2


def test_index_refuses_an_unknown_metric(kb, vectors):
    with pytest.raises(PelError, match='"euclid"'):
        kb.index([vectors], dim=8, metric="euclid", fingerprint="abc")


def test_reading_goes_on_while_a_kb_is_indexed_and_a_second_writer_is_refused(indexed, vectors, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.records.opening.LOCK_SECONDS", 0.05)

    def blocks():
        other = KnowledgeBase(indexed.path)
        assert list(other.entities()) == list(indexed.entities()) and list(other.indexes) == ["abc"]
        with pytest.raises(PelError, match="no other process changes"):
            other.index([vectors], dim=8, metric="cosine", fingerprint="second")
        yield vectors

    indexed.index(blocks(), dim=8, metric="cosine", fingerprint="first")
    assert list(KnowledgeBase(indexed.path).indexes) == ["abc", "first"]


def test_search_without_vectors_or_with_other_queries(kb, vectors):
    with pytest.raises(PelError, match="no vectors; run `python -m spacy pel index"):
        kb.entity_index().search(vectors, 1)
    kb.index([vectors], dim=8, metric="cosine", fingerprint="abc")
    with pytest.raises(PelError, match="8 dimensions"):
        kb.entity_index().search(vectors[:, :4], 1)


# --- processes and threads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.timeout(120)
def test_processes(indexed, vectors, method):
    """A spawned process gets the pickled KB; a forked one the object, after faiss has used its threads."""
    queries = np.repeat(vectors, 100, axis=0)
    expected = answers(indexed, queries)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        *found, pid = pool.submit(answers, indexed, queries).result(timeout=60)
    assert pid != os.getpid()
    assert found == list(expected[:-1])


@pytest.mark.timeout(60)
def test_fork_inherits_an_open_kb(indexed, vectors):
    queries = np.repeat(vectors, 100, axis=0)
    expected = answers(indexed, queries)[:-1]
    pid = os.fork()
    if pid == 0:  # no unpickling here: connections and mapping are those of the parent
        os._exit(0 if answers(indexed, queries)[:-1] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert answers(indexed, queries)[:-1] == expected


def test_threads(indexed, vectors):
    expected = answers(indexed, vectors)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(lambda _: answers(indexed, vectors), range(200)))
    indexed.close()


def test_pickles_as_its_path(indexed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(KnowledgeBase("kb"))
    assert len(data) < 500
    monkeypatch.chdir("/")
    assert pickle.loads(data).path == indexed.path


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="counts memory in /proc")
def test_open_maps_the_vectors(tmp_path):
    """40 MB of vectors: opening and searching them adds far less than that to the anonymous memory."""
    n, dim = 80_000, 128
    kb = KnowledgeBase.create(tmp_path / "kb", numbered(n))
    block = np.ones((n // 8, dim), dtype="float32")
    kb.index((block for _ in range(8)), dim=dim, metric="dot", fingerprint="abc")
    script = """
import re, sys
import numpy as np
from spacy_pel.kb.knowledge_base import KnowledgeBase

def memory(kind):
    return sum(map(int, re.findall(kind + r":\\s+(\\d+)", open("/proc/self/status").read()))) / 1024

MAPPED = "Rss(?:File|Shmem)"  # a file in tmpfs counts as shared memory
anonymous, mapped = memory("RssAnon"), memory(MAPPED)
kb = KnowledgeBase(sys.argv[1])
opened = memory(MAPPED) - mapped
kb.entity_index().search(np.ones((2, 128), dtype="float32"), 4)
print(opened, memory(MAPPED) - mapped, memory("RssAnon") - anonymous)
"""
    run = subprocess.run([sys.executable, "-c", script, kb.path], capture_output=True, text=True, check=True)
    opened, searched, anonymous = map(float, run.stdout.split())
    assert opened < 10 and anonymous < 10 and searched > 35


# --- copies and replacement ------------------------------------------------------------------------------------------


def test_copy(indexed, vectors, tmp_path):
    copy = indexed.copy_to(tmp_path / "linker" / "kb")
    assert copy.path == tmp_path / "linker" / "kb"
    assert copy.meta == indexed.meta and answers(copy, vectors) == answers(indexed, vectors)
    assert list(copy.entities()) == list(indexed.entities())
    assert names(copy.path.parent) == {"kb"}


def test_copy_without_vectors(indexed, tmp_path):
    copy = indexed.copy_to(tmp_path / "copy", indexes=())
    assert names(copy.path) == {"entities.sqlite"} and not copy.indexes
    assert list(copy.entities()) == list(indexed.entities()) and copy.meta["counts"] == indexed.meta["counts"]
    assert copy.copy_to(tmp_path / "again").path.is_dir()


def test_copy_onto_itself_does_nothing(indexed, vectors, tmp_path):
    (tmp_path / "link").symlink_to(indexed.path)
    before = {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in indexed.path.rglob("*.*")}
    for path in (indexed.path, tmp_path / "kb" / ".." / "kb", tmp_path / "link"):
        assert indexed.copy_to(path) is indexed
    assert {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in indexed.path.rglob("*.*")} == before
    answers(indexed, vectors)


def test_copy_into_its_own_folder_is_refused(indexed, tmp_path):
    (tmp_path / "link").symlink_to(indexed.path)
    for path in (indexed.path / "copy", indexed.path / "indexes" / "abc", tmp_path / "link" / "copy"):
        with pytest.raises(PelError, match="is in the KB's own folder; choose one outside it"):
            indexed.copy_to(path)
    assert names(indexed.path) == {"entities.sqlite", "indexes"} and KnowledgeBase(indexed.path).indexes
    assert indexed.copy_to(tmp_path / "kb-2").path.is_dir()


def test_a_replaced_kb_keeps_working_where_it_is_open(indexed, vectors, tmp_path):
    before = answers(indexed, vectors)
    other = KnowledgeBase.create(tmp_path / "other", numbered(5))
    other.index([vectors[::-1]], dim=8, metric="cosine", fingerprint="xyz")
    replaced = other.copy_to(indexed.path)
    assert names(tmp_path) == {"kb", "other"}
    assert replaced.entity_index("xyz").search(vectors, 1)[1].ravel().tolist() == [4, 3, 2, 1, 0]
    assert answers(indexed, vectors) == before
    # What needs the path again says so instead of mixing two KBs.
    with pytest.raises(PelError, match="another KB has taken its place"):
        indexed.copy_to(tmp_path / "third")
    with ThreadPoolExecutor(1) as pool, pytest.raises(PelError, match="another KB has taken its place"):
        pool.submit(list, indexed).result()
    assert names(tmp_path) == {"kb", "other"}


def test_a_later_copy_of_the_same_kb_takes_the_place_of_the_first(indexed, vectors, tmp_path):
    """All its threads go on with the file that was opened, or say that there is another."""
    live = KnowledgeBase(indexed.copy_to(tmp_path / "live").path)
    before = answers(live, vectors)
    indexed.update([Entity("D001241", "acetylsalicylic acid")], NewVectors("abc", vectors[:1]))
    indexed.copy_to(live.path)
    assert answers(live, vectors) == before
    with ThreadPoolExecutor(1) as pool, pytest.raises(PelError, match="another KB has taken its place"):
        pool.submit(answers, live, vectors).result()
    with pytest.raises(PelError, match="another KB has taken its place"):
        live.remove(["5"])
    assert answers(live, vectors) == before
    assert KnowledgeBase(live.path)["D001241"].name == "acetylsalicylic acid"


def test_a_kb_behind_a_link_is_the_one_that_it_led_to_when_it_was_opened(indexed, vectors, tmp_path):
    copy = indexed.copy_to(tmp_path / "copy")
    (tmp_path / "link").symlink_to(indexed.path)
    linked = KnowledgeBase(tmp_path / "link")
    assert answers(linked, vectors) == answers(indexed, vectors)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(copy.path)
    with ThreadPoolExecutor(1) as pool, pytest.raises(PelError, match="another KB has taken its place"):
        pool.submit(answers, linked, vectors).result()


def test_a_copy_has_what_was_indexed_since(indexed, vectors, tmp_path):
    stale = KnowledgeBase(indexed.path)
    indexed.index([vectors[::-1]], dim=8, metric="cosine", fingerprint="abc")
    indexed.index([-vectors], dim=8, metric="cosine", fingerprint="def")
    copy = stale.copy_to(tmp_path / "copy")
    assert copy.meta == indexed.meta and answers(copy, vectors) == answers(indexed, vectors)


def test_copy_refuses_a_kb_that_changes_meanwhile(indexed, vectors, tmp_path, monkeypatch):
    stale = KnowledgeBase(indexed.path)
    indexed.index([vectors], dim=8, metric="cosine", fingerprint="def")
    monkeypatch.setattr(KnowledgeBase, "_notice_changes", lambda self: None)
    with pytest.raises(PelError, match="has changed since it was opened"):
        stale.copy_to(tmp_path / "copy")
    assert names(tmp_path) == {"kb"}


def test_copy_refuses_a_kb_whose_files_another_process_replaces_meanwhile(indexed, vectors, tmp_path, monkeypatch):
    def copy_later(*arguments):
        other = KnowledgeBase(indexed.path)
        other.remove(["5"])
        other.compact()
        copy_files(*arguments)

    monkeypatch.setattr("spacy_pel.kb.knowledge_base.copy_files", copy_later)
    with pytest.raises(PelError, match="has changed since it was opened"):
        indexed.copy_to(tmp_path / "copy")
    assert names(tmp_path) == {"kb"}


def test_create_replaces_only_a_kb_and_only_when_asked(kb, tmp_path, caplog):
    with pytest.raises(PelError, match="is there already"):
        KnowledgeBase.create(kb.path, numbered(2))
    with caplog.at_level(logging.INFO, logger="spacy_pel"):
        assert len(KnowledgeBase.create(kb.path, numbered(2), overwrite=True)) == 2
    assert "removed the folder that was there before" in caplog.text
    assert names(tmp_path) == {"kb"}


def test_a_kb_with_a_hidden_file_of_the_system_is_replaced(kb):
    (kb.path / ".DS_Store").touch()
    (kb.path / ".names.old-1a2b3c4d").mkdir()  # as a killed process leaves it
    assert len(KnowledgeBase.create(kb.path, numbered(2), overwrite=True)) == 2


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "config.cfg",
        ".git/config",
        ".env",
        "names.csv",
        "indexes_2024/thesis.tex",
        "entities.sqlite.backup",
    ],
)
def test_a_folder_that_is_no_kb_is_never_replaced(kb, tmp_path, name):
    (tmp_path / "mine" / name).parent.mkdir(parents=True)
    (tmp_path / "mine" / name).write_text("years of work")
    (tmp_path / "file").write_text("more work")
    for target, message in (("mine", Path(name).parts[0]), ("file", "is a file")):
        with pytest.raises(PelError, match=message):
            KnowledgeBase.create(tmp_path / target, numbered(2), overwrite=True)
        with pytest.raises(PelError, match=message):
            kb.copy_to(tmp_path / target)
    assert (tmp_path / "mine" / name).read_text() == "years of work"


# --- broken folders --------------------------------------------------------------------------------------------------


def truncate(path, keep=0.5):
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * keep))


def foreign_database(path):
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entities (id TEXT)")
    connection.close()


def other_dimension(path):
    """As many bytes, but read as another shape."""
    data = path.read_bytes()
    assert b"(5, 8)" in data
    path.write_bytes(data.replace(b"(5, 8)", b"(8, 5)"))


def other_numbers(path):
    """A whole file of the same shape with what belongs to another KB."""
    data = bytearray(path.read_bytes())
    data[-40:] = bytes(byte ^ 1 for byte in data[-40:])
    path.write_bytes(data)


BREAKAGES = [
    ("entities.sqlite", lambda path: path.unlink(), "missing"),
    ("entities.sqlite", truncate, "malformed|truncated"),
    ("entities.sqlite", lambda path: os.truncate(path, path.stat().st_size - 1), "truncated"),
    ("entities.sqlite", lambda path: path.write_bytes(b""), "not the entity file of a KB"),
    ("entities.sqlite", lambda path: path.write_text("no database " * 500), "not a database"),
    ("entities.sqlite", foreign_database, "not the entity file of a KB"),
    *(
        (f"indexes/abc/{name}", breaks, message)
        for name in ("vectors-1.npy", "owners-1.npy")
        for breaks, message in (
            (lambda path: path.unlink(), "missing"),
            (truncate, "bytes instead of"),
            (lambda path: path.write_bytes(b"x" * path.stat().st_size), "is a file of another KB"),
            (other_numbers, "another KB"),
        )
    ),
    ("indexes/abc/vectors-1.npy", other_dimension, "another KB"),
]


@pytest.mark.parametrize("name, breaks, message", BREAKAGES)
def test_broken_files_are_named_with_what_to_run(indexed, entities, name, breaks, message):
    indexed.close()
    breaks(indexed.path / name)
    with pytest.raises(PelError, match=message) as error:
        KnowledgeBase(indexed.path)
    assert str(indexed.path / name) in str(error.value)
    assert f"python -m spacy pel build-kb SOURCE {indexed.path} --force" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(KnowledgeBase.create(indexed.path, entities, overwrite=True)) == 5  # the remedy helps


def test_missing_folder(tmp_path):
    with pytest.raises(
        PelError, match=r"kb/entities\.sqlite: the file is missing; build the KB .*build-kb SOURCE \S+kb`"
    ):
        KnowledgeBase(tmp_path / "kb")


def test_other_format_version(kb):
    with sqlite3.connect(kb.path / "entities.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format_version'")
    with pytest.raises(PelError, match="format version 99"):
        KnowledgeBase(kb.path)
