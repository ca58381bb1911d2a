"""A process killed at any moment of a build, a copy or an indexing leaves the KB as before, as after, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from on_disk import contents, names

from spacy_pel.errors import PelError
from spacy_pel.files.folders import left_aside
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.kb.names import tables
from spacy_pel.kb.verify import verify

PRELUDE = """
import os, signal, sqlite3, sys, time
from pathlib import Path
import numpy as np
from spacy_pel.files import folders
from spacy_pel.kb import knowledge_base, stored_files
from spacy_pel.kb.index import files, on_disk, vectors
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.records import schema, writing
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase

path = sys.argv[1]

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def entities(n, kill_at=None, pause=0.0):
    for i in range(n):
        if i == kill_at:
            die()
        time.sleep(pause)
        yield Entity(id=f"new-{i}", name=f"entity {i}")

def blocks(kill_at=None, pause=0.0):
    for row in range(50):
        if row == kill_at:
            die()
        time.sleep(pause)
        yield np.full((1, 4), 2.0, dtype="float32")

def index(*args, fingerprint="old"):
    KnowledgeBase(path).index(blocks(*args), dim=4, metric="dot", fingerprint=fingerprint)

def build(*args):
    KnowledgeBase.create(path, entities(*args), overwrite=True)
"""


def run_killed(script: str, path, after: float | None = None) -> None:
    """Run `script`, which kills itself, or is killed `after` seconds once it says that it is ready."""
    script = PRELUDE + "print('ready', flush=True)\n" + script
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    with process, process.stdout:
        process.stdout.readline()
        if after is not None:
            time.sleep(after)
            process.kill()
        process.wait(timeout=60)
    assert process.returncode == -signal.SIGKILL


def check_files(kb: KnowledgeBase) -> None:
    """No file is there but those that `meta` names, and all of these are as they were written."""
    named = {file["name"] for record in kb.meta["indexes"].values() for file in record["files"].values()}
    assert set(contents(kb.path)) == {"entities.sqlite", *named} and verify(kb) == []


@pytest.fixture
def old(tmp_path) -> KnowledgeBase:
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity(id=f"old-{i}", name=f"entity {i}") for i in range(50)])
    kb.index([np.ones((50, 4), dtype="float32")], dim=4, metric="dot", fingerprint="old")
    return kb


def check_before_or_after(path, value_of: dict[str, float]) -> str:
    """Which of the names in `value_of` the KB has, by the number that its vectors are full of."""
    kb = KnowledgeBase(path)
    assert len(list(kb.entities())) == len(kb) == 50
    scores, rows = kb.entity_index("old").search(np.ones((1, 4), dtype="float32"), 50)
    assert sorted(rows[0]) == list(range(50)) and (scores == scores[0, 0]).all()
    (name,) = [name for name, value in value_of.items() if scores[0, 0] == 4 * value]
    return name


# --- building --------------------------------------------------------------------------------------------------------

BUILD_KILLS = {
    "first entity": "build(5000, 0)",
    "amid entities": "build(5000, 3210)",
    "before the ids are indexed": "writing._index_ids = die; build(10)",
    "before meta is written": "schema.write_meta = die; build(10)",
    "before the files are on the disk": "folders.sync = die; build(10)",
}


@pytest.mark.parametrize("script", BUILD_KILLS.values(), ids=BUILD_KILLS.keys())
def test_killed_build(tmp_path, script):
    path = tmp_path / "kb"
    run_killed(script, path)
    assert not path.exists()
    with pytest.raises(PelError, match="missing"):
        KnowledgeBase(path)
    assert len(names(tmp_path)) == 1  # what was left …
    KnowledgeBase.create(path, [Entity(id="a", name="b")])
    assert names(tmp_path) == {"kb"}  # … is gone after the next build


@pytest.mark.parametrize("script", BUILD_KILLS.values(), ids=BUILD_KILLS.keys())
def test_killed_replacement_leaves_the_old_kb(old, script):
    run_killed(script, old.path)
    assert check_before_or_after(old.path, {"old": 1.0}) == "old"
    assert len(KnowledgeBase.create(old.path, [Entity(id="a", name="b")], overwrite=True)) == 1
    assert names(old.path.parent) == {"kb"}


def test_killed_between_the_two_renames(old):
    """No KB for this moment; the old one is complete beside its place, and the error says where."""
    run_killed(
        "folders.exchange = lambda *_: False  # as on other systems\n"
        "rename = Path.rename\n"
        "Path.rename = lambda self, to: die() if '.new-' in self.name else rename(self, to)\n"
        "build(10)",
        old.path,
    )
    (aside,) = left_aside(old.path)
    with pytest.raises(PelError, match=aside.name):
        KnowledgeBase(old.path)
    assert check_before_or_after(aside, {"old": 1.0}) == "old"
    KnowledgeBase.create(old.path, [Entity(id="a", name="b")])
    assert names(old.path.parent) == {"kb"}


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux can do")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_as_they_change_places(old, moment):
    """There is a KB at every moment."""
    kill = {"before": "die()", "after": "exchange(*paths) and die()"}[moment]
    run_killed(f"exchange = folders.exchange\nfolders.exchange = lambda *paths: {kill}\nbuild(10)", old.path)
    assert len(KnowledgeBase(old.path)) == {"before": len(old), "after": 10}[moment]
    assert not left_aside(old.path) and len(names(old.path.parent)) == 2
    KnowledgeBase.create(old.path, [Entity(id="a", name="b")], overwrite=True)
    assert names(old.path.parent) == {"kb"}


def test_killed_before_the_old_kb_is_removed(old):
    run_killed("folders.shutil.rmtree = die; build(10)", old.path)
    assert len(KnowledgeBase(old.path)) == 10
    KnowledgeBase(old.path).copy_to(old.path.parent / "copy")  # another target: nothing of `kb` is touched
    assert len(names(old.path.parent)) == 3
    KnowledgeBase.create(old.path, [Entity(id="a", name="b")], overwrite=True)
    assert names(old.path.parent) == {"kb", "copy"}


def test_killed_copy(old, tmp_path):
    target = old.copy_to(tmp_path / "target").path
    old.index([np.full((50, 4), 2.0, dtype="float32")], dim=4, metric="dot", fingerprint="old")
    run_killed(f"stored_files.shutil.copyfile = die; KnowledgeBase(path).copy_to({str(target)!r})", old.path)
    assert check_before_or_after(target, {"old": 1.0}) == "old"
    old.copy_to(target)
    assert check_before_or_after(target, {"new": 2.0}) == "new"
    assert names(tmp_path) == {"kb", "target"}


@pytest.mark.parametrize("after", [0.0, 0.1, 0.25])
def test_build_killed_at_some_moment(old, after):
    run_killed("build(100_000, None, 0.001)", old.path, after)
    assert check_before_or_after(old.path, {"old": 1.0}) == "old"


# --- indexing --------------------------------------------------------------------------------------------------------

INDEX_KILLS = {
    "first block": ("index(0)", "old"),
    "amid blocks": ("index(25)", "old"),
    "before the vector file gets its name": ("Path.rename = die; index()", "old"),
    "between the two files": ("on_disk._write_owners = die; index()", "old"),
    "between the vector file and meta": ("schema.write_meta = die; index()", "old"),
    "amid the meta transaction": (
        "write = schema.write_meta\nschema.write_meta = lambda connection, meta: die(write(connection, meta))\nindex()",
        "old",
    ),
    "before the old file is removed": ("Path.unlink = die; index()", "new"),
}


@pytest.mark.parametrize("script, expected", INDEX_KILLS.values(), ids=INDEX_KILLS.keys())
def test_killed_index(old, script, expected):
    run_killed(script, old.path)
    assert check_before_or_after(old.path, {"old": 1.0, "new": 2.0}) == expected
    kb = KnowledgeBase(old.path)
    kb.index([np.full((50, 4), 3.0, dtype="float32")], dim=4, metric="dot", fingerprint="old")
    assert check_before_or_after(old.path, {"next": 3.0}) == "next"
    check_files(kb)


CHANGE_KILLS = {
    "add, before meta": ("schema.write_meta = die; add()", 51),
    "add, amid the transaction": (
        "write = schema.write_meta\nschema.write_meta = lambda connection, meta: die(write(connection, meta))\nadd()",
        51,
    ),
    "remove, before meta": ("schema.write_meta = die; KnowledgeBase(path).remove(['old-1'])", 51),
    "compact, before the vectors": ("vectors.VectorIndex.write = die; KnowledgeBase(path).compact()", 51),
    "compact, before the rows": ("writing.renumber_rows = die; KnowledgeBase(path).compact()", 51),
    "compact, before meta": ("schema.write_meta = die; KnowledgeBase(path).compact()", 51),
    "compact, before the old file is removed": ("Path.unlink = die; KnowledgeBase(path).compact()", 50),
}


@pytest.mark.parametrize("script, rows", CHANGE_KILLS.values(), ids=CHANGE_KILLS.keys())
def test_killed_change(old, script, rows):
    """Whenever it is killed, the KB is the one with old-0 removed and late added, compacted or not."""
    old.remove(["old-0"])
    old.add([Entity(id="late", name="late")], NewVectors("old", np.full((1, 4), 3.0, dtype="float32")))
    run_killed(
        "def add():\n"
        "    vectors = np.ones((1, 4), dtype='float32')\n"
        "    KnowledgeBase(path).add([Entity(id='never', name='n')], NewVectors('old', vectors))\n" + script,
        old.path,
    )
    kb = KnowledgeBase(old.path)
    scores, found = kb.entity_index().search(np.ones((1, 4), dtype="float32"), 60)
    assert [id for id in kb.ids(found)[0] if id] == ["late", *(f"old-{i}" for i in range(1, 50))]
    assert scores[0, :50].tolist() == [12.0] + [4.0] * 49 and len(kb) == 50 and kb.n_rows == rows
    kb.compact()
    assert kb.n_rows == 50
    check_files(kb)


TWO_KILLS = {
    "index b, before the second file": ("on_disk._write_owners = die; index_b()", "before"),
    "index b, before meta": ("schema.write_meta = die; index_b()", "before"),
    "index b, before the old files are removed": ("Path.unlink = die; index_b()", "after"),
    "add, before meta": ("schema.write_meta = die; add()", "before"),
    "drop b, before meta": ("schema.write_meta = die; KnowledgeBase(path).drop_index('b')", "before"),
    "drop b, before its files are removed": ("Path.unlink = die; KnowledgeBase(path).drop_index('b')", "dropped"),
    "compact, before the first file": ("vectors.VectorIndex.write = die; compact()", "before"),
    "compact, before the last file": ("second(on_disk, '_write_owners'); compact()", "before"),
    "compact, before the rows": ("writing.renumber_rows = die; compact()", "before"),
    "compact, before meta": ("schema.write_meta = die; compact()", "before"),
    "compact, before the old files are removed": ("Path.unlink = die; compact()", "compacted"),
}


@pytest.mark.parametrize("script, expected", TWO_KILLS.values(), ids=TWO_KILLS.keys())
def test_killed_change_of_a_kb_with_two_indexes(old, script, expected):
    """In index "b" each entity owns two vectors; old-0 is removed, "late" is only in index "old"."""
    two = np.repeat(np.arange(50), 2)
    values = np.repeat(np.stack([np.zeros(50), np.full(50, 5.0)], axis=1).reshape(-1, 1), 2, axis=1).astype("float32")
    old.index([values], dim=2, metric="dot", fingerprint="b", owners=two)
    old.remove(["old-0"])
    old.add([Entity(id="late", name="late")], NewVectors("old", np.full((1, 4), 3.0, dtype="float32")))
    run_killed(
        "def index_b():\n"
        "    kb = KnowledgeBase(path)\n"
        "    kb.index([np.full((50, 2), 7, dtype='float32')], dim=2, metric='dot', fingerprint='b')\n"
        "def add():\n"
        "    KnowledgeBase(path).add([Entity('never', 'n')], NewVectors('b', np.ones((1, 2), dtype='float32')))\n"
        "def compact():\n"
        "    KnowledgeBase(path).compact()\n"
        "def second(module, name):\n"
        "    first, calls = getattr(module, name), []\n"
        "    def call(*arguments):\n"
        "        calls.append(1)\n"
        "        return first(*arguments) if len(calls) < 2 else die()\n"
        "    setattr(module, name, call)\n" + script,
        old.path,
    )
    kb = KnowledgeBase(old.path)
    assert len(kb) == 50 and kb.n_rows == (50 if expected == "compacted" else 51)
    first, second = np.ones((1, 4), dtype="float32"), np.ones((1, 2), dtype="float32")
    scores, found = kb.entity_index("old").search(first, 60)
    assert [id for id in kb.ids(found)[0] if id] == ["late", *(f"old-{i}" for i in range(1, 50))]
    assert scores[0, :50].tolist() == [12.0] + [4.0] * 49
    if expected == "dropped":
        assert list(kb.indexes) == ["old"]
    else:
        index = kb.entity_index("b")
        scores, found = index.search(second, 60)
        value, late = (14.0, ["late"]) if expected == "after" else (10.0, [])
        assert [id for id in kb.ids(found)[0] if id] == [*(f"old-{i}" for i in range(1, 50)), *late]
        assert set(scores[0, : 49 + len(late)]) == {value} and index.n_missing == 1 - len(late)
    kb.compact()
    assert kb.n_rows == 50
    check_files(kb)


def test_killed_with_pages_in_the_database(old):
    """A journal that a killed writer left is rolled back by the next one to open the KB."""
    run_killed(
        "connection = sqlite3.connect(Path(path) / 'entities.sqlite')\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('PRAGMA cache_spill = 1')\n"
        "connection.execute('BEGIN')\n"
        "connection.execute('CREATE TABLE junk (x)')\n"
        "connection.execute('DELETE FROM meta')\n"
        "connection.executemany('INSERT INTO junk VALUES (?)', [('x' * 4000,)] * 500)\n"
        "connection.execute(\"UPDATE entities SET name = 'junk'\")\n"
        "die()",
        old.path,
    )
    assert "entities.sqlite-journal" in names(old.path)
    old.close()
    assert check_before_or_after(old.path, {"old": 1.0}) == "old"
    assert KnowledgeBase(old.path)["old-7"].name == "entity 7"
    assert "entities.sqlite-journal" not in names(old.path)


@pytest.mark.parametrize("after", [0.0, 0.1, 0.25, 0.45])
def test_index_killed_at_some_moment(old, after):
    run_killed("index(None, 0.005)\nwhile True: time.sleep(1)", old.path, after)
    check_before_or_after(old.path, {"old": 1.0, "new": 2.0})


def test_a_failing_build_leaves_the_old_kb(old):
    def entities():
        yield Entity(id="a", name="b")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KnowledgeBase.create(old.path, entities(), overwrite=True)
    assert check_before_or_after(old.path, {"old": 1.0}) == "old"
    assert os.listdir(old.path.parent) == ["kb"]


NAME_KILLS = {
    "while the file is written": "building._Writer.write_keys = die",
    "before the file gets its name": "Path.rename = die",
    "before meta names it": "writing.write_arrays = die",
    "before the commit": "schema.write_meta = die",
    "before the old file goes": "name_files.remove_others = dies_second",
}


@pytest.mark.parametrize("script", NAME_KILLS.values(), ids=NAME_KILLS.keys())
def test_killed_while_the_file_of_names_is_written(old, script, monkeypatch):
    """The KB is as before or as after, and its next change leaves the one file that is named."""
    monkeypatch.setattr(tables, "MOST_NAMES", 10)
    kb = KnowledgeBase(old.path)
    kb.add([Entity("late", "a late entity")], NewVectors("old", np.full((1, 4), 1.0, dtype="float32")))
    kb.compact()
    assert [path.name for path in (kb.path / "names").iterdir()] == ["grams-1.bin"]
    kb.remove(["old-0"])
    many = "from spacy_pel.kb.names import building, files as name_files, tables\ntables.MOST_NAMES = 10\n"
    many += "keep = name_files.remove_others\ncalls = []\n"
    many += "def dies_second(*args):\n    calls.append(1)\n    die() if len(calls) > 1 else keep(*args)\n"
    run_killed(f"{many}{script}\nKnowledgeBase(path).compact()", old.path)
    kb = KnowledgeBase(old.path)
    assert verify(kb) == [] and "late" in kb.ids(kb.names.match("late entities").best(5))
    kb.remove(["old-1"])
    named = Path(kb.meta["names"]["file"]["name"]).name
    assert [path.name for path in (kb.path / "names").iterdir()] == [named]
