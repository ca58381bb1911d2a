"""KB folders that somebody else has made: what harms today is refused, and named."""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.records import writing

MAGIC = bytes.fromhex("d9d505f920a163d7")


def make_kb(path: Path) -> Path:
    kb = KnowledgeBase.create(path / "kb", [Entity(f"E{i}", f"name {i}") for i in range(3)])
    kb.index([np.eye(3, dtype="float32")], dim=3, metric="cosine", fingerprint="a")
    kb.close()
    return kb.path / "entities.sqlite"


@pytest.fixture
def file(tmp_path) -> Path:
    return make_kb(tmp_path)


def journal_naming(victim: Path, pages: int) -> bytes:
    """A hot journal with nothing to play back, and a super-journal that SQLite deletes afterwards."""
    name = os.fsencode(victim)
    header = MAGIC + struct.pack(">5I", 0, 0, pages, 512, 4096)
    end = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC
    return header.ljust(512, b"\0") + end


def test_a_journal_deletes_no_other_file(file, tmp_path):
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    journal = Path(f"{file}-journal")
    journal.write_bytes(journal_naming(victim, file.stat().st_size // 4096))
    with pytest.raises(PelError, match=r"entities\.sqlite-journal: this journal names another file"):
        KnowledgeBase(file.parent)
    assert victim.read_text() == "years of work"
    journal.unlink()
    assert len(KnowledgeBase(file.parent)) == 3


def test_an_open_kb_looks_at_a_journal_that_turns_up(file, tmp_path):
    kb = KnowledgeBase(file.parent)
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    Path(f"{file}-journal").write_bytes(journal_naming(victim, file.stat().st_size // 4096))
    for use in (lambda: kb["E1"], lambda: kb.remove(["E1"])):
        with pytest.raises(PelError, match="names another file"):
            use()
    assert victim.exists()


def test_an_open_kb_goes_on_after_a_writer_was_killed(file):
    kb = KnowledgeBase(file.parent)
    assert kb["E1"].name == "name 1"
    script = (
        "import os, signal, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN')\n"
        "connection.execute(\"UPDATE entities SET name = 'half', definition = hex(zeroblob(20000))\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)])
    assert Path(f"{file}-journal").exists()
    assert kb["E1"].name == "name 1" and not Path(f"{file}-journal").exists()


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_links_and_foreign_files_beside_it_are_refused(file, tmp_path, suffix):
    (tmp_path / "victim").write_bytes(b"years of work" * 1000)
    Path(f"{file}{suffix}").symlink_to(tmp_path / "victim")
    with pytest.raises(PelError, match=f"entities.sqlite{suffix}: no KB has such a file"):
        KnowledgeBase(file.parent)
    assert (tmp_path / "victim").read_bytes() == b"years of work" * 1000


STRANGE = {
    'trigger "robs"': "CREATE TRIGGER robs AFTER INSERT ON entities BEGIN UPDATE entities SET name = 'robbed'; END",
    'view "seen"': "CREATE VIEW seen AS SELECT 1",
    'table "more"': "CREATE TABLE more (x)",
    'index "by_name"': "CREATE INDEX by_name ON entities (name)",
    'table "words"': "CREATE VIRTUAL TABLE words USING fts5(word)",
    'table "types"': "DROP TABLE types; CREATE VIEW types AS SELECT 'x' AS type, row FROM entities",
}


@pytest.mark.parametrize("what, sql", STRANGE.items(), ids=STRANGE.keys())
def test_what_spacy_pel_has_not_written_is_refused_by_name(file, what, sql):
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(sql)
    name = what.split('"')[1]
    with pytest.raises(PelError, match=f'has the (trigger|view|table|index) "{name}') as error:
        KnowledgeBase(file.parent)
    assert "which spacy-pel has not written" in str(error.value)


def test_a_table_of_another_kind_is_refused(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "DROP TABLE removed; CREATE TABLE removed (row INTEGER PRIMARY KEY DEFAULT (random()))"
        )
    with pytest.raises(PelError, match='has the table "removed", which'):
        KnowledgeBase(file.parent)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE removed")
    with pytest.raises(PelError, match='lacks the table "removed"'):
        KnowledgeBase(file.parent)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_kb_that_is_only_read_is_opened_read_only(file):
    kb = KnowledgeBase(file.parent)
    assert kb["E1"].name == "name 1"
    descriptors = [Path("/proc/self/fd") / one for one in os.listdir("/proc/self/fd")]
    flags = [
        int((Path("/proc/self/fdinfo") / one.name).read_text().split("flags:")[1].split()[0], 8)
        for one in descriptors
        if one.exists() and one.resolve() == file
    ]
    assert flags and all(flag & os.O_ACCMODE == os.O_RDONLY for flag in flags)


def test_nothing_outside_the_folder_is_changed(file, tmp_path):
    """Names of files in `meta`, and links in the place of folders, cannot lead out of the KB."""
    other = make_kb(tmp_path / "other")
    kb = KnowledgeBase(file.parent)
    (file.parent / "indexes" / "b").symlink_to(other.parent / "indexes" / "a")
    with pytest.raises(PelError, match="indexes/b: is a link"):
        kb.remove(["E1"])
    assert len(KnowledgeBase(other.parent).indexes) == 1
    (file.parent / "indexes" / "b").unlink()

    def lead_out(_, meta):
        meta["indexes"]["a"]["files"]["vectors"]["name"] = "../vectors-1.npy"

    (file.parent / "indexes" / "a" / "vectors-1.npy").rename(tmp_path / "vectors-1.npy")
    kb.records.change(lead_out)
    with pytest.raises(PelError, match="no file of an index"):
        KnowledgeBase(file.parent)


def test_a_linked_file_is_read_and_not_changed(file, tmp_path):
    file.rename(tmp_path / "blob")
    file.symlink_to(tmp_path / "blob")
    before = (tmp_path / "blob").read_bytes()
    kb = KnowledgeBase(file.parent)
    assert len(kb) == 3
    with pytest.raises(PelError, match=r"is a link to .*blob; copy the KB"):
        kb.remove(["E1"])
    assert (tmp_path / "blob").read_bytes() == before
    assert len(kb.copy_to(tmp_path / "copy")) == 3


def test_a_lock_is_no_damage(file, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.records.opening.LOCK_SECONDS", 0.05)
    kb = KnowledgeBase(file.parent)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(PelError, match=r"cannot be read now \(database is locked\)") as error:
            kb["E1"]
        assert "index again" not in str(error.value) and "build" not in str(error.value)
    assert kb["E1"].name == "name 1"


@pytest.fixture
def reader(file, monkeypatch) -> Iterator[sqlite3.Connection]:
    """Reads all of the KB, as `kb verify` does of a large one."""
    monkeypatch.setattr("spacy_pel.kb.records.opening.LOCK_SECONDS", 0.05)
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM entities").fetchall()
        yield connection


def test_a_change_waits_for_those_who_read_as_long_as_it_has_taken(file, reader):
    done = threading.Timer(2.5, reader.execute, ["COMMIT"])

    def edit(connection, meta):
        done.start()
        sleep(2)
        writing.remove(connection, meta, ["E1"])

    KnowledgeBase(file.parent).records.change(edit)
    done.join()
    assert "E1" not in KnowledgeBase(file.parent)


def test_a_change_that_has_taken_no_time_does_not_wait_for_them(file, reader):
    with pytest.raises(PelError, match=r"cannot be changed now .*or reads all of it") as error:
        KnowledgeBase(file.parent).remove(["E1"])
    assert "writable" not in str(error.value)
    reader.execute("COMMIT")
    assert "E1" in KnowledgeBase(file.parent)


def test_another_journal_mode_is_refused(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
    with pytest.raises(PelError, match='journal mode to "wal"'):
        KnowledgeBase(file.parent)
