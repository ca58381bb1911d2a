"""Entities added, updated and removed without a new vector file; filters; compaction."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.records import writing
from spacy_pel.kb.records.schema import pragma
from spacy_pel.kb.verify import verify

DIM, TYPES = 8, ("drug", "disease", "gene")
Model = dict[str, tuple[Entity, np.ndarray]]


def make_entity(id: str, rng: np.random.Generator) -> Entity:
    types = tuple(kind for kind in TYPES if rng.random() < 0.5)
    return Entity(
        id=id,
        name=f"name {id}",
        aliases=(f"Alias-{id}", f"shared {len(id)}"),
        types=types,
        xrefs=(f"V{len(types)}:{id}",),
        source="S",
    )


def make_kb(path, n: int, seed: int = 0) -> tuple[KnowledgeBase, Model]:
    rng = np.random.default_rng(seed)
    entities = [make_entity(f"E{i}", rng) for i in range(n)]
    vectors = unit_vectors(n, DIM, seed)
    kb = KnowledgeBase.create(path, entities)
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc")
    return kb, {entity.id: (entity, vector) for entity, vector in zip(entities, vectors, strict=True)}


def found(kb: KnowledgeBase, queries: np.ndarray, k: int, types: tuple[str, ...] = (), **how: int) -> list[list[str]]:
    within = kb.rows_of_types(types) if types else None
    rows = kb.entity_index().search(queries, k, within, **how)[1]
    return [[id for id in ids if id] for ids in kb.ids(rows).tolist()]


def brute_force(model: Model, queries: np.ndarray, k: int, types: tuple[str, ...] = ()) -> list[list[str]]:
    ids = [id for id, (entity, _) in model.items() if not types or set(types) & set(entity.types)]
    scores = queries @ np.array([model[id][1] for id in ids]).T
    return [[ids[i] for i in np.argsort(-row, kind="stable")[:k]] for row in scores]


def check(kb: KnowledgeBase, model: Model, seed: int = 1) -> None:
    queries = unit_vectors(5, DIM, seed)
    for k in (1, 7, len(model) + 3):
        assert found(kb, queries, k) == brute_force(model, queries, k)
        assert found(kb, queries, k, ("gene",)) == brute_force(model, queries, k, ("gene",))
        assert found(kb, queries, k, ("drug", "disease")) == brute_force(model, queries, k, ("drug", "disease"))
    assert len(kb) == len(model) and set(kb) == set(model) and all(kb[id] == model[id][0] for id in model)
    assert [e.id for e in kb.named("ALIAS e3")] == (["E3"] if "E3" in model else [])
    assert {e.id for e in kb.named("shared 2")} == {id for id in model if len(id) == 2}
    counts = {kind: sum(kind in entity.types for entity, _ in model.values()) for kind in TYPES}
    assert kb.type_counts() == {kind: count for kind, count in counts.items() if count}
    n_types = [len(entity.types) for entity, _ in model.values()]
    assert kb.code_counts() == {f"V{n}": n_types.count(n) for n in range(4) if n in n_types}
    assert kb.meta["counts"]["aliases"] == 2 * len(model)
    assert (kb.ids(kb.live_rows) == list(kb)).all()


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_changes_searches_like_brute_force(tmp_path, seed):
    rng = np.random.default_rng(seed)
    kb, model = make_kb(tmp_path / "kb", 40, seed)
    for step in range(25):
        what = rng.choice(["add", "remove", "update", "compact", "index", "reopen"], p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
        if what == "add":
            entities = [make_entity(f"N{step}-{i}", rng) for i in range(rng.integers(1, 6))]
            vectors = unit_vectors(len(entities), DIM, 100 + step)
            kb.add(entities, NewVectors("abc", vectors))
            model |= {e.id: (e, v) for e, v in zip(entities, vectors, strict=True)}
        elif what == "remove":
            ids = rng.choice(list(model), size=rng.integers(1, 6), replace=False).tolist()
            kb.remove(ids)
            model = {id: kept for id, kept in model.items() if id not in ids}
        elif what == "update":
            ids = rng.choice(list(model), size=2, replace=False).tolist()
            entities, vectors = [make_entity(id, rng) for id in ids], unit_vectors(2, DIM, 200 + step)
            kb.update(entities, NewVectors("abc", vectors))
            model = {id: kept for id, kept in model.items() if id not in ids}
            model |= {e.id: (e, v) for e, v in zip(entities, vectors, strict=True)}
        elif what == "compact":
            kb.compact()
            assert kb.n_added == kb.n_removed == 0 and kb.n_rows == len(model)
        elif what == "index":
            vectors = np.array([model[e.id][1] for e in kb.entities()])
            kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc")
        else:
            kb = KnowledgeBase(kb.path)
        check(kb, model, seed)
    check(KnowledgeBase(kb.path), model)
    check(kb.copy_to(tmp_path / "copy"), model)
    assert verify(kb) == []


def test_many_removals_in_one_search(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.index.entity_index.MOST_PASSED_OVER", 10)
    kb, model = make_kb(tmp_path / "kb", 40)
    gone = [f"E{i}" for i in range(0, 40, 2)]
    kb.remove(gone)
    check(kb, {id: kept for id, kept in model.items() if id not in gone})


def test_a_filter_is_searched_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.index.vectors.BLOCK", 3)
    kb, model = make_kb(tmp_path / "kb", 40)
    check(kb, model)


@pytest.mark.parametrize("index_type", ["SQ8", "IVF4,Flat", "IVF4,PQ4x4fs,Refine(SQ8)"])
def test_changes_to_a_compressed_kb(tmp_path, index_type):
    n = 400
    kb, model = make_kb(tmp_path / "kb", n)
    vectors = np.array([vector for _, vector in model.values()])
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc", index_type=index_type)
    kb.remove([f"E{i}" for i in range(100)])
    new = unit_vectors(1, DIM, 77)
    kb.add([Entity("new", "new")], NewVectors("abc", new))
    for _ in range(2):
        assert found(kb, new, 1) == [["new"]] and verify(kb) == []
        hits = [ids[0] == f"E{i}" for i, ids in zip(range(100, n), found(kb, vectors[100:], 1, n_probe=4), strict=True)]
        assert np.mean(hits) > 0.95
        assert not {f"E{i}" for i in range(100)} & {id for ids in found(kb, vectors[:100], 3, n_probe=4) for id in ids}
        kb.compact()
        assert kb.entity_index().index_type == index_type and kb.n_rows == 301


def test_an_index_that_cannot_be_opened_is_never_committed(tmp_path):
    kb, model = make_kb(tmp_path / "kb", 300)
    vectors = np.array([vector for _, vector in model.values()])
    for index_type in ("IVF0,Flat", "HNSW8,PQ4x4"):
        with pytest.raises(PelError, match="--index-type"):
            kb.index([vectors], dim=DIM, metric="cosine", fingerprint="other", index_type=index_type)
        check(KnowledgeBase(kb.path), model)


def test_compaction_that_leaves_too_few_for_the_index_type_says_what_to_do(tmp_path):
    kb, model = make_kb(tmp_path / "kb", 100)
    vectors = np.array([vector for _, vector in model.values()])
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc", index_type="IVF64,Flat")
    kb.remove([f"E{i}" for i in range(50)])
    with pytest.raises(PelError, match=r"IVF64,Flat. cannot be built .*; index again with another \(`spacy pel index`"):
        kb.compact()


def refusals(entity: Entity, vector: np.ndarray) -> dict[str, tuple[Callable[[KnowledgeBase], object], str]]:
    bad = np.full_like(vector, np.nan)
    return {
        "there": (lambda kb: kb.add([Entity("E1", "x")], NewVectors("abc", vector)), '"E1" is in the KB already'),
        "twice": (lambda kb: kb.add([entity, entity], NewVectors("abc", np.repeat(vector, 2, 0))), "comes twice"),
        "update": (lambda kb: kb.update([entity], NewVectors("abc", vector)), '"new" is not in the KB'),
        "remove": (lambda kb: kb.remove(["E1", "nobody"]), '"nobody" is not in the KB'),
        "all": (lambda kb: kb.remove(list(kb)), "one must stay"),
        "encoder": (lambda kb: kb.add([entity], NewVectors("other", vector)), "of another encoder"),
        "no vectors": (
            lambda kb: kb.add([entity]),
            r"kb: Expected .* shape \(1, 8\), got none; use `linker\.add_entities`",
        ),
        "shape": (lambda kb: kb.add([entity], NewVectors("abc", vector[:, 1:])), r"got the shape \(1, 7\)"),
        "finite": (lambda kb: kb.add([entity], NewVectors("abc", bad)), "not finite"),
    }


@pytest.mark.parametrize("case", refusals(Entity("new", "new"), unit_vectors(1, DIM)))
def test_a_refused_change_leaves_the_kb_as_it_was(tmp_path, case):
    kb, model = make_kb(tmp_path / "kb", 10)
    before = (kb.path / "entities.sqlite").read_bytes()
    change, message = refusals(Entity("new", "new"), unit_vectors(1, DIM))[case]
    with pytest.raises(PelError, match=message):
        change(kb)
    assert (kb.path / "entities.sqlite").read_bytes() == before
    check(kb, model)


def test_a_kb_without_vectors_changes_too_and_is_indexed_later(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "a"), Entity("B", "b"), Entity("C", "c")])
    kb.remove(["A"])
    kb.add([Entity("D", "d")])
    with pytest.raises(PelError, match="has no vectors"):
        kb.add([Entity("E", "e")], NewVectors("abc", unit_vectors(1, DIM)))
    vectors = unit_vectors(3, DIM)
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc")
    assert kb.ids(kb.entity_index().search(vectors, 1)[1]).ravel().tolist() == ["B", "C", "D"]


def test_a_removed_successor_is_forgotten_and_an_added_id_is_retired_no_more(tmp_path):
    retired = [("old-A", "A"), ("old-B", "B")]
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "a"), Entity("B", "b")], retired=retired)
    kb.remove(["A"])
    kb.add([Entity("old-B", "b again")])
    assert kb.successors(["old-A", "old-B"]) == {} and kb.meta["counts"]["retired"] == 0


def test_the_retired_ids_are_read_once_for_all_that_are_removed(tmp_path, monkeypatch):
    entities = [Entity(id, id) for id in ("A", "心", 'B"\\', "C")]
    kb = KnowledgeBase.create(
        tmp_path / "kb", entities, retired=[(f"old-{e.id}-{i}", e.id) for e in entities for i in "12"]
    )
    scans = []

    def edit(connection, meta):
        connection.set_trace_callback(lambda query: scans.append(query) if "successor" in query else None)
        writing.remove(connection, meta, ["A", "心", 'B"\\', "A"])
        connection.set_trace_callback(None)

    kb.records.change(edit)
    assert len([query for query in scans if "WHERE successor" in query]) == 1
    kb = KnowledgeBase(kb.path)
    assert kb.successors() == {"old-C-1": "C", "old-C-2": "C"} and kb.meta["counts"]["retired"] == 2
    assert verify(kb) == []


def test_an_updated_entity_stays_a_successor(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "a"), Entity("B", "b")], retired=[("old-A", "A")])
    kb.update([Entity("A", "a by another name")])
    assert kb.successors(["old-A"]) == {"old-A": "A"} and kb.meta["counts"]["retired"] == 1


def test_same_concepts_are_found_by_present_and_retired_ids(tmp_path):
    entities = [Entity("A", "a", xrefs=("A", "OMIM:1", "B")), Entity("B", "b"), Entity("C", "c", xrefs=("old-B",))]
    kb = KnowledgeBase.create(tmp_path / "kb", entities, retired=[("old-B", "B")])
    assert kb.same_concepts().tolist() == [[0, 1], [2, 1]]
    kb.remove(["B"])
    assert kb.same_concepts().shape == (0, 2)


def test_type_names_of_added_entities(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "a", types=("T1",), type_names=("Drug",))])
    kb.add([Entity("B", "b", types=("T2",), type_names=("Gene",))])
    assert kb.with_type_names(Entity("C", "c", types=("T2", "T1", "T9"))).type_names == ("Gene", "Drug", "T9")
    assert KnowledgeBase(kb.path)["B"].type_names == ("Gene",)
    before = list(kb.entities())
    with pytest.raises(PelError, match='"C" calls the type "T1" "Chemical", which is "Drug" already'):
        kb.add([Entity("C", "c", types=("T1",), type_names=("Chemical",))])
    with pytest.raises(PelError, match='"B" calls the type "T1" "Gene", which is "Drug" already'):
        KnowledgeBase.create(tmp_path / "two", [before[0], Entity("B", "b", types=("T1",), type_names=("Gene",))])
    assert list(KnowledgeBase(kb.path).entities()) == before and not (tmp_path / "two").exists()
    kb.add([Entity("C", "c", types=("T1", "T9"), type_names=(" ", "T9"))])  # which say nothing
    kb.add([Entity("D", "d", types=("T9",), type_names=("Organ",))])
    assert kb["C"].type_names == ("Drug", "Organ") and list(kb.entities())[:2] == before


def test_of_a_compound_source_each_part_counts(tmp_path):
    sources = ("MeSH", "MeSH+Wikidata", "")
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity(str(i), "e", source=s) for i, s in enumerate(sources)])
    assert kb.source_counts() == {"MeSH": 2, "Wikidata": 1, "": 1}


def test_unknown_types_are_refused(tmp_path):
    kb, _ = make_kb(tmp_path / "kb", 10)
    with pytest.raises(PelError, match='no entity has the type "T999"; the commonest types are'):
        kb.rows_of_types(["drug", "T999"])


def test_names_are_found_whatever_their_case_and_punctuation(tmp_path):
    kb = KnowledgeBase.create(
        tmp_path / "kb",
        [
            Entity("1", "β-Amyloid (1-42)", aliases=("Aβ42",)),
            Entity("2", "+/-"),
            Entity("3", "ﬁbrosis", aliases=("FIBROSIS",)),
            Entity("4", "beta amyloid 1 42"),
        ],
    )
    ids = {form: [e.id for e in kb.named(form)] for form in ("Β Amyloid 1 42", "+/-", "-/+", "fibrosis", "", "none")}
    assert ids == {"Β Amyloid 1 42": ["1"], "+/-": ["2"], "-/+": [], "fibrosis": ["3"], "": [], "none": []}


def test_keys_that_collide_are_told_apart(tmp_path, monkeypatch):
    for module in ("writing", "store"):
        monkeypatch.setattr(f"spacy_pel.kb.records.{module}.alias_key", lambda form: 7)
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "a"), Entity("B", "b")])
    assert [e.id for e in kb.named("b")] == ["B"]


# --- several at once -------------------------------------------------------------------------------------------------


def test_what_another_has_changed_is_seen_at_the_next_search(tmp_path):
    kb, _ = make_kb(tmp_path / "kb", 10)
    vector = unit_vectors(1, DIM, 9)
    other = KnowledgeBase(kb.path)
    assert found(other, vector, 1) != [["new"]]
    kb.add([Entity("new", "new")], NewVectors("abc", vector))
    assert found(other, vector, 1) == [["new"]] and other["new"].name == "new" and len(other) == 11
    _, rows = other.entity_index().search(vector, 2)
    kb.remove(["new"])
    assert other.ids(rows)[0, 0] == "" and found(other, vector, 11)[0].count("new") == 0


def test_rows_are_never_mixed_up_with_those_of_a_compacted_kb(tmp_path):
    kb, _ = make_kb(tmp_path / "kb", 10)
    other = KnowledgeBase(kb.path)
    vector = unit_vectors(1, DIM, 9)
    _, rows = other.entity_index().search(vector, 2)
    kb.remove(["E0"])
    assert len(other.ids(rows)[0]) == 2
    kb.compact()
    for look_up in (lambda: other.ids(rows), lambda: other.entity_index().search(vector, 2), lambda: other["E1"]):
        with pytest.raises(PelError, match="numbered anew since it was opened; open the KB again"):
            look_up()
    assert len(found(KnowledgeBase(kb.path), vector, 10)[0]) == 9


def test_a_change_of_more_than_the_cache_holds_shuts_no_reader_out(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.records.opening.LOCK_SECONDS", 0.05)
    kb, model = make_kb(tmp_path / "kb", 10)
    kept = []

    def edit(connection, meta):
        connection.execute("INSERT INTO added_vectors VALUES (0, 'other', 0, zeroblob(8000000))")
        assert KnowledgeBase(kb.path)["E3"] == model["E3"][0]
        connection.execute("DELETE FROM added_vectors")
        writing.delete_entities(connection, meta, ["E3"])
        writing.renumber_rows(connection, meta)  # nobody reads from here on: the whole KB need not be in memory
        kept.append(pragma(connection, "cache_spill"))

    kb.records.change(edit)
    assert kept[0] < 10_000 and len(KnowledgeBase(kb.path)) == 9


def add_some(path: str, name: str) -> None:
    kb = KnowledgeBase(path)
    for i in range(10):
        kb.add([Entity(f"{name}{i}", name)], NewVectors("abc", unit_vectors(1, DIM, i)))


@pytest.mark.timeout(120)
def test_two_processes_add_and_neither_loses_anything(tmp_path):
    kb, model = make_kb(tmp_path / "kb", 10)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_some, args=(str(kb.path), name)) for name in "xy"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert set(KnowledgeBase(kb.path)) == {*model, *(f"{name}{i}" for name in "xy" for i in range(10))}


def test_reading_leaves_every_byte_as_it_is(tmp_path):
    kb, model = make_kb(tmp_path / "kb", 10)
    kb.close()
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in kb.path.rglob("*.*")}
    check(KnowledgeBase(kb.path), model)
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in kb.path.rglob("*.*")} == before


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index_type", ["PCA4,Flat", "PQ4x4", "SQ4", "IVF4,PQ4x4fs,Refine(PQ4x4)", "SQ8", "PCA4,Flat,RFlat"]
)
def test_lengths_are_verified_of_types_that_keep_them(tmp_path, index_type):
    kb = KnowledgeBase.create(tmp_path / "kb", (Entity(f"E{i}", "e") for i in range(300)))
    vectors = unit_vectors(300, DIM)
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc", index_type=index_type)
    assert verify(kb) == []
    kb.index([2 * vectors], dim=DIM, metric="cosine", fingerprint="abc", index_type=index_type)
    assert len(verify(kb)) == (index_type in ("SQ8", "PCA4,Flat,RFlat"))


def test_verify_finds_what_opening_cannot(tmp_path):
    rows = 70_000  # too large for the sample taken on opening to hold every byte
    kb = KnowledgeBase.create(tmp_path / "kb", (Entity(f"E{i}", "e") for i in range(rows)))
    vectors = unit_vectors(rows, DIM)
    vectors[5] *= 2
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="abc")
    assert [problem.split(": ")[1] for problem in verify(kb)] == ["1 vectors are not of unit length"]
    path = kb.path / kb.entity_index().record["files"]["vectors"]["name"]
    with path.open("r+b") as file:
        file.seek(128 + 4 * 2000)  # a whole float32: the header has 128 bytes
        file.write(np.float32(np.inf).tobytes())
    problems = verify(KnowledgeBase(kb.path))
    assert len(problems) == 3 and "SHA-256" in problems[0] and "1 vectors are not finite" in problems[1]
