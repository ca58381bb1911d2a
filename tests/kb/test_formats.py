"""KBs that older versions wrote: read as they are, and brought to the present format by the first change."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.records import digest
from spacy_pel.kb.verify import verify

FORMAT_3 = Path(__file__).parent / "data" / "format3.zip"
QUERIES = np.concatenate([np.eye(4, dtype="float32"), -np.eye(4, dtype="float32")])


@pytest.fixture(params=[2, 3])
def old(request, tmp_path) -> Path:
    path = tmp_path / "kb"
    shutil.unpack_archive(FORMAT_3, path)
    if request.param == 2:
        with sqlite3.connect(path / "entities.sqlite") as connection:
            connection.execute("DROP TABLE postings")
            connection.execute("DROP TABLE name_arrays")
            connection.execute("DELETE FROM meta WHERE key = 'names'")
            connection.execute("UPDATE meta SET value = '2' WHERE key = 'format_version'")
        connection.close()
    return path


def version(path: Path) -> int:
    with sqlite3.connect(path / "entities.sqlite") as connection:
        return int(connection.execute("SELECT value FROM meta WHERE key = 'format_version'").fetchone()[0])


def check(kb: KnowledgeBase, *more: str) -> None:
    assert list(kb) == ["D0", "D2", "D3", "N5", "D4", *more] and kb["D4"].name == "Blue skin"
    scores, rows = kb.entity_index("abc").search(QUERIES, 2)
    assert kb.ids(rows)[[0, 2, 3, 4, 5], 0].tolist() == ["D0", "D2", "D3", "N5", "D4"]
    assert scores[[0, 2, 3, 4, 5], 0].tolist() == [1.0] * 5 and scores[1, 0] == 0
    index = kb.entity_index()
    assert (index.dim, index.metric, index.index_type, index.n_vectors) == (4, "cosine", "flat", len(kb))
    assert verify(kb) == []


def test_it_is_read_as_it_is(old):
    before = {file: file.read_bytes() for file in old.rglob("*.*")}
    format_version = version(old)
    kb = KnowledgeBase(old)
    check(kb)
    assert kb.n_added == 2 and kb.n_removed == 2 and kb.successors(["old-D1"]) == {}
    kb.close()
    assert {file: file.read_bytes() for file in old.rglob("*.*")} == before and version(old) == format_version
    if format_version == 2:
        with pytest.raises(PelError, match="kb compact"):
            KnowledgeBase(old).names.match("heart")


CHANGES = {
    "add": (lambda kb: kb.add([Entity("X", "x")], NewVectors("abc", np.full((1, 4), -0.5, "float32"))), ("X",)),
    "another index": (
        lambda kb: (
            kb.index([np.ones((5, 2), "float32")], dim=2, metric="dot", fingerprint="b"),
            kb.drop_index("b"),
        ),
        (),
    ),
    "compact": (lambda kb: kb.compact(), ()),
}


@pytest.mark.parametrize("change, more", CHANGES.values(), ids=CHANGES.keys())
def test_the_first_change_brings_it_up_to_date(old, change, more):
    other = KnowledgeBase(old)
    kb = KnowledgeBase(old)
    change(kb)
    assert version(old) == 4
    check(kb, *more)
    check(KnowledgeBase(old), *more)
    if kb.meta["numbering"] == other.meta["numbering"]:
        check(other, *more)
    kb.compact()
    check(KnowledgeBase(old), *more)
    files = {file.relative_to(old).as_posix() for file in old.rglob("*.*")}
    named = {file["name"] for file in kb.meta["indexes"]["abc"]["files"].values()}
    assert files == {"entities.sqlite", *named} and all(name.startswith("indexes/abc/") for name in named)
    assert kb.ids(kb.names.match("AV blocks").best(1)).tolist() == ["N5"]


def test_keys_of_names_that_an_older_version_read_otherwise_go_with_their_entities(tmp_path):
    """It split words at the vowels of Hindi: two neighbours had one key."""
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("E", "first"), Entity("D", "दिल"), Entity("L", "दाल")])

    def edit(connection, meta):
        connection.execute("UPDATE forms SET key = 7 WHERE row > 0")
        digest.count_again(connection, meta, ["forms"])

    kb.records.change(edit)
    kb.remove(["D"])
    kb.compact()
    assert verify(kb) == [] and kb.records.rows_of_keys([7]) == {7: [1]}


def test_a_refused_change_leaves_it_as_it_was(old):
    before = (old / "entities.sqlite").read_bytes()
    with pytest.raises(PelError, match='"nobody" is not in the KB'):
        KnowledgeBase(old).remove(["nobody"])
    assert (old / "entities.sqlite").read_bytes() == before


def test_a_copy_is_of_the_present_format(old, tmp_path):
    kb = KnowledgeBase(old)
    copy = kb.copy_to(tmp_path / "copy")
    check(copy)
    assert version(copy.path) == 4
    bare = kb.copy_to(tmp_path / "bare", indexes=())
    assert not bare.indexes and len(bare) == 5 and [file.name for file in bare.path.iterdir()] == ["entities.sqlite"]
