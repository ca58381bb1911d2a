"""The index of a KB of many names, in a file: beside the one in tables, and through every change of a KB."""

from __future__ import annotations

import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names import building, file_names, tables
from spacy_pel.kb.records import schema
from spacy_pel.kb.verify import verify

WORDS = ["acute", "chronic", "renal", "cardiac", "failure", "syndrome", "type", "of", "valve", "myalgia", "ǆ", "7"]
WORDS += ["𝛼-lithium", "deficiency", "b12", "x"]
TEXTS = ["acute renal failures", "Valve", "syndrome of type 7", "zzzz", "x", "ǆ", "", "chronic 𝛼-lithium myalgias b12"]


def entities(n: int, seed: int = 0) -> list[Entity]:
    random_ = random.Random(seed)

    def name() -> str:
        return " ".join(random_.choices(WORDS, k=random_.randint(1, 5)))

    kinds = [("even", "odd")[i % 2] for i in range(n)]
    return [Entity(f"E{i}", name(), tuple(name() for _ in range(random_.randint(0, 3))), (kinds[i],)) for i in range(n)]


@pytest.fixture(autouse=True)
def many(monkeypatch):
    monkeypatch.setattr(tables, "MOST_NAMES", 10)


def in_tables(path, monkeypatch, records) -> KnowledgeBase:
    with monkeypatch.context() as patched:
        patched.setattr(tables, "MOST_NAMES", 10**6)
        return KnowledgeBase.create(path, records)


def indexed(path, records) -> KnowledgeBase:
    kb = KnowledgeBase.create(path, records)
    kb.index([unit_vectors(len(kb), 4)], dim=4, metric="cosine", fingerprint="a")
    return kb


def files(kb) -> list[str]:
    return sorted(path.name for path in kb.path.glob("names/*"))


@pytest.mark.parametrize("n, chunk, at_once", [(30, 1 << 16, 1 << 22), (700, 100, 1000)])
def test_it_answers_as_the_tables_do(tmp_path, monkeypatch, n, chunk, at_once):
    """To the last digit; and with chunks of names and lists written in parts."""
    monkeypatch.setattr(building, "CHUNK", chunk)
    monkeypatch.setattr(building, "POSTINGS_AT_ONCE", at_once)
    records = entities(n)
    kb, small = KnowledgeBase.create(tmp_path / "kb", records), in_tables(tmp_path / "small", monkeypatch, records)
    assert files(kb) == ["grams-1.bin"] and files(small) == [] and verify(kb) == []
    every, some = np.arange(n), np.arange(0, n, 3)
    for text in [*TEXTS, *(entity.name for entity in records[::10])]:
        ours, theirs = kb.names.match(text), small.names.match(text)
        scores = theirs.scores(every)
        assert (ours.scores(every) == scores).all()
        for k, within in [(1, None), (5, None), (64, None), (5, some), (20, some)]:
            best, right = (sorted(scores[match.best(k, within), 0])[::-1] for match in (ours, theirs))
            over = [one for one in right if one > 0.5]
            assert best[: len(over)] == over  # less alike may share no 4-gram


def test_a_search_that_reads_little_finds_the_best(tmp_path, monkeypatch):
    records = entities(3000)
    kb = KnowledgeBase.create(tmp_path / "kb", records)
    monkeypatch.setattr(file_names, "BUDGET", 2000)
    monkeypatch.setattr(file_names, "COMPARED", 100)
    right = 0
    for entity in records[::30]:
        match = kb.names.match(f"{entity.name}s")
        every = match.scores(np.arange(3000))[:, 0]
        right += every.max() == every[match.best(5)].max(initial=0)
    assert right >= 95


def test_what_comes_again_is_remembered(tmp_path, monkeypatch):
    """Not more than so many texts; and with other entities allowed, or more asked for, it is another question."""
    kb = KnowledgeBase.create(tmp_path / "kb", entities(700))
    monkeypatch.setattr(file_names, "REMEMBERED", 2)
    reads = []
    read = file_names.FileNames._read
    monkeypatch.setattr(file_names.FileNames, "_read", lambda self, text: reads.append(text) or read(self, text))

    def best(text: str, k: int = 5, within: np.ndarray | None = None) -> list[int]:
        return kb.names.match(text).best(k, within).tolist()

    first = best("acute valve")
    assert (best("acute valve"), len(reads)) == (first, 1)
    assert len(best("acute valve", 9)) > len(first)
    some = np.arange(0, 700, 3)
    assert set(best("acute valve", 5, some)) <= set(some.tolist()) and len(reads) == 2
    assert best("renal valve") == best("renal valve") and len(reads) == 3
    assert (best("acute valve"), len(reads)) == (first, 4)


def test_additions_removals_and_compaction(tmp_path, monkeypatch):
    records = entities(40)
    kb = indexed(tmp_path / "kb", records)
    new = Entity("N", "Novel block", ("NB",))
    kb.add([new], NewVectors("a", unit_vectors(1, 4)))
    kb.update([Entity("E3", "Coronary occlusion")], NewVectors("a", unit_vectors(1, 4)))
    kb.remove(["E7"])
    match = kb.names.match("novel block")
    assert 40 in match.best(3) and match.scores(np.array([40]))[0].tolist() == pytest.approx([1, 1])
    assert 41 in kb.names.match("Coronary occlusion").best(1)  # at once, by its name
    assert files(kb) == ["grams-1.bin"]
    kb.compact()
    assert files(kb) == ["grams-2.bin"] and verify(kb) == []
    now = list(kb.values())
    small = in_tables(tmp_path / "small", monkeypatch, now)
    for text in ("novel blocks", "coronary occlusions", *TEXTS):
        ours, theirs = (one.names.match(text).scores(np.arange(len(now))) for one in (kb, small))
        assert (ours == theirs).all()
    assert kb.ids(kb.names.match("coronary occlusions").best(1)).tolist() == ["E3"]


def test_a_kb_grows_out_of_the_tables_and_back(tmp_path, monkeypatch):
    kb = in_tables(tmp_path / "kb", monkeypatch, entities(40))
    kb.add([Entity("N", "Novel block")])
    kb.compact()
    assert files(kb) == ["grams-1.bin"] and 40 in kb.names.match("novel blocks").best(1)
    monkeypatch.setattr(tables, "MOST_NAMES", 10**6)
    kb.remove(["E0"])
    kb.compact()
    assert not (kb.path / "names").exists() and 39 in kb.names.match("novel blocks").best(1)


def test_another_process_compacts(tmp_path):
    kb = indexed(tmp_path / "kb", entities(40))
    before = kb.names.match("novel blocks")
    other = KnowledgeBase(kb.path)
    other.add([Entity("N", "Novel block")], NewVectors("a", unit_vectors(1, 4)))
    other.compact()
    assert files(kb) == ["grams-2.bin"]
    assert 40 in kb.names.match("novel blocks").best(1)
    assert len(before.scores(np.arange(40))) == 40  # what is mapped stays


def test_a_file_that_goes_amid_a_look_up_is_looked_for_again(tmp_path, monkeypatch):
    kb, other = indexed(tmp_path / "kb", entities(40)), KnowledgeBase(tmp_path / "kb")
    arrays = kb.records.name_arrays

    def overtaken():
        monkeypatch.setattr(kb.records, "name_arrays", arrays)
        other.add([Entity("N", "Novel block")], NewVectors("a", unit_vectors(1, 4)))
        other.compact()
        return arrays()

    monkeypatch.setattr(kb.records, "name_arrays", overtaken)
    assert kb.ids(kb.names.match("novel blocks").best(1)).tolist() == ["N"]


def test_a_copy_has_the_file(tmp_path):
    kb = indexed(tmp_path / "kb", entities(40))
    copy = kb.copy_to(tmp_path / "copy")
    assert verify(copy) == [] and files(copy) == files(kb) and copy.size_bytes == kb.size_bytes
    assert copy.names.match("valves").best(3).tolist() == kb.names.match("valves").best(3).tolist()
    KnowledgeBase.create(copy.path, entities(5), overwrite=True)


def test_what_a_failing_change_leaves_counts_for_nothing_and_goes(tmp_path, monkeypatch):
    kb = indexed(tmp_path / "kb", entities(40))
    expected = kb.names.match("valves").best(3).tolist()
    kb.add([Entity("N", "Novel block")], NewVectors("a", unit_vectors(1, 4)))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "write_meta", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            kb.compact()
    (kb.path / "names" / "grams-9.bin.part").touch()
    assert files(kb) == ["grams-1.bin", "grams-2.bin", "grams-9.bin.part"]
    again = KnowledgeBase(kb.path)
    assert again.names.match("valves").best(3).tolist() == expected and verify(again) == []
    again.remove(["E1"])
    assert files(again) == ["grams-1.bin"]


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "foreign": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_file_that_is_not_the_one_is_named_and_written_again(tmp_path, damage):
    kb = indexed(tmp_path / "kb", entities(40))
    file = kb.path / "names" / "grams-1.bin"
    damage(file)
    kb = KnowledgeBase(kb.path)
    with pytest.raises(PelError, match=f"{re.escape(str(file))}: .*kb compact"):
        kb.names.match("valves")
    assert [problem for problem in verify(kb) if str(file) in problem]
    kb.compact()
    assert verify(kb) == [] and kb.names.match("valves").best(3).tolist()


def test_a_flipped_bit_gives_another_answer_or_a_pel_error(tmp_path, monkeypatch):
    """Where the first look does not find it, as in a file of gigabytes."""
    kb = indexed(tmp_path / "kb", entities(60))
    file, random_ = kb.path / "names" / "grams-1.bin", random.Random(0)
    data = file.read_bytes()
    monkeypatch.setattr("spacy_pel.kb.names.files.checked", lambda folder, record, name: folder / record["name"])
    for _ in range(200):
        flipped = bytearray(data)
        flipped[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        file.write_bytes(flipped)
        damaged = KnowledgeBase(kb.path)
        assert [problem for problem in verify(damaged) if "SHA-256" in problem]
        for text in TEXTS:
            try:
                match = damaged.names.match(text)
                match.best(5)
                match.scores(np.arange(60))
            except PelError as error:
                assert "kb verify" in str(error)


@pytest.mark.parametrize("name", ["../outside.bin", "names/grams-1.bin/../../x", "/etc/passwd"])
def test_a_file_outside_the_kb_is_never_read(tmp_path, name):
    kb = indexed(tmp_path / "kb", entities(40))
    (tmp_path / "outside.bin").write_bytes(b"outside")

    def edit(connection, meta):
        meta["names"]["file"]["name"] = name

    with pytest.raises(PelError, match="which is no file of an index"):
        kb.records.change(edit)
        KnowledgeBase(kb.path).names.match("valves")
    assert [problem for problem in verify(KnowledgeBase(kb.path)) if "which is no file of an index" in problem]
    with pytest.raises(PelError, match="which is no file of an index"):
        KnowledgeBase(kb.path).copy_to(tmp_path / "deep" / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "kb", "outside.bin"]
    assert not list((tmp_path / "deep").iterdir())


def test_a_linked_folder_is_not_written_to(tmp_path):
    kb = indexed(tmp_path / "kb", entities(40))
    shutil.move(kb.path / "names", tmp_path / "elsewhere")
    (kb.path / "names").symlink_to(tmp_path / "elsewhere")
    assert len(kb.names.match("valves").best(3))
    with pytest.raises(PelError, match="is a link"):
        kb.remove(["E1"])


def test_names_of_one_letter(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity(f"E{i}", chr(97 + i)) for i in range(20)])
    match = kb.names.match("c")
    assert match.best(3).tolist() == [2] and match.scores(np.arange(4))[:, 0].tolist() == pytest.approx([0, 0, 1, 0])
    assert kb.names.match("zz").best(3).tolist() == [] and verify(kb) == []


def test_threads_get_the_answers_of_one(tmp_path):
    records = entities(700)
    kb = KnowledgeBase.create(tmp_path / "kb", records)

    def answer(text):
        match = kb.names.match(text)
        return match.scores(match.best(5)).tolist()

    texts = [entity.name for entity in records] * 2
    alone = [answer(text) for text in texts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(answer, texts)) == alone
