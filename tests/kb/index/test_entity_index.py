"""Several indexes of one KB, and several vectors of one entity, beside brute force."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.errors import PelError
from spacy_pel.files.hashes import sample_digest
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.best import best
from spacy_pel.kb.index.edits import PendingEdits
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.index.on_disk import folder_of
from spacy_pel.kb.index.owners import Owners
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.numbering import VectorNumbers
from spacy_pel.kb.verify import verify

DIM = 8
Vectors = dict[str, np.ndarray]


def make_kb(path, n: int) -> KnowledgeBase:
    kinds = ("even", "odd")
    return KnowledgeBase.create(path, [Entity(f"E{i}", f"name {i}", types=(kinds[i % 2],)) for i in range(n)])


def several(ids: list[str], seed: int, most: int = 4) -> Vectors:
    """From none to `most` vectors for every id, and one at least for the first."""
    rng = np.random.default_rng(seed)
    counts = np.maximum(rng.integers(0, most + 1, len(ids)), [1] + [0] * (len(ids) - 1))
    vectors = np.split(unit_vectors(int(counts.sum()), DIM, seed), np.cumsum(counts)[:-1])
    return dict(zip(ids, vectors, strict=True))


def shared(ids: list[str], seed: int) -> Vectors:
    """From one to four vectors for every id, of a few that many have."""
    rng, few = np.random.default_rng(seed), unit_vectors(12, DIM, seed)
    return {id: few[rng.choice(12, rng.integers(1, 5), replace=False)] for id in ids}


def put_index(kb: KnowledgeBase, fingerprint: str, vectors: Vectors, **settings) -> None:
    """Write an index with each vector once: of a few that many have, with several owners."""
    rows = kb.rows(vectors)
    owners = np.repeat([rows[id] for id in kb], [len(vectors[id]) for id in kb])
    blocks = [vectors[id] for id in kb]
    distinct, numbers = np.unique(np.concatenate(blocks), axis=0, return_inverse=True)
    if len(distinct) < len(owners):
        blocks, owners = [distinct], Owners(owners, numbers)
    kb.index(blocks, dim=DIM, metric="cosine", fingerprint=fingerprint, owners=owners, **settings)


def brute_force(vectors: Vectors, query: np.ndarray, k: int, allowed: set[str] | None = None) -> list[float]:
    best = [(own @ query).max() for id, own in vectors.items() if len(own) and (allowed is None or id in allowed)]
    return sorted(best, reverse=True)[:k]


def check(kb: KnowledgeBase, fingerprint: str, vectors: Vectors) -> None:
    index, queries = kb.entity_index(fingerprint), unit_vectors(6, DIM, 99)
    index.search(queries, 1)  # which sees what another process has changed
    odd = {id for id in kb if "odd" in kb[id].types}
    for k in (1, 5, len(kb) + 2):
        for within, allowed in ((None, None), (kb.rows_of_types(["odd"]), odd)):
            scores, rows, places = index.nearest(queries, k, within)
            assert [own.tolist() for own in index.search(queries, k, within)] == [scores.tolist(), rows.tolist()]
            found = [[id for id in own if id] for own in kb.ids(rows).tolist()]
            assert all(len(set(own)) == len(own) and (allowed is None or set(own) <= allowed) for own in found)
            best = [[(vectors[id] @ q).max() for id in own] for own, q in zip(found, queries, strict=True)]
            for row, own, q in zip(scores, best, queries, strict=True):
                assert own == pytest.approx(brute_force(vectors, q, k, allowed), abs=1e-6)
                assert row[: len(own)] == pytest.approx(own, abs=1e-6) and (row[len(own) :] == -np.inf).all()
            for row, own, q in zip(places.tolist(), found, queries, strict=True):
                assert row == [(vectors[id] @ q).argmax() for id in own] + [-1] * (k - len(own))
    numbers, rows = np.repeat(np.arange(len(queries)), kb.n_rows), np.tile(np.arange(kb.n_rows), len(queries))
    products, nth = index.similarities(queries, numbers, rows)
    each = [(vectors.get(id, []), queries[number]) for id, number in zip(kb.ids(rows).tolist(), numbers, strict=True)]
    assert nth.tolist() == [(own @ query).argmax() if len(own) else -1 for own, query in each]
    assert products == pytest.approx([(own @ query).max() if len(own) else 0 for own, query in each], abs=1e-6)
    owners, blocks = index.owners(), np.concatenate(list(index.blocks()))
    assert kb.ids(owners.rows).tolist() == [id for id in kb for _ in vectors[id]]
    numbers = np.arange(len(owners)) if owners.numbers is None else owners.numbers
    np.testing.assert_allclose(blocks[numbers], np.concatenate([vectors[id] for id in kb]))
    assert index.n_vectors == len(blocks) == len(np.unique(numbers))
    assert index.n_missing == sum(not len(own) for own in vectors.values())


@pytest.mark.parametrize("most_passed_over", [0, 1000])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [False, True])
def test_any_changes_of_two_indexes_search_like_brute_force(tmp_path, monkeypatch, share, seed, most_passed_over):
    monkeypatch.setattr("spacy_pel.kb.index.entity_index.MOST_PASSED_OVER", most_passed_over)
    rng = np.random.default_rng(seed)
    kb = make_kb(tmp_path / "kb", 30)
    draw = shared if share else several
    model = {"a": several(list(kb), seed, 1), "b": draw(list(kb), seed + 10)}
    for fingerprint, vectors in model.items():
        put_index(kb, fingerprint, vectors)
    other = KnowledgeBase(kb.path)
    actions = ["add", "add several", "remove", "update", "index", "compact", "drop", "reopen"]
    for step in range(16):
        what, here = rng.choice(actions), "ab"[rng.integers(2)]
        if what == "add":
            new = [Entity(f"N{step}-{i}", f"new {i}", types=("odd",)) for i in range(3)]
            vectors = unit_vectors(3, DIM, 100 + step)
            kb.add(new, NewVectors(here, vectors))
            own = dict(zip((e.id for e in new), vectors[:, None], strict=True))
        elif what == "add several":
            new = [Entity(f"M{step}-{i}", f"new {i}", types=("even",)) for i in range(3)]
            vectors = unit_vectors(4, DIM, 200 + step)
            kb.add(new, NewVectors(here, vectors, [0, 0, 0, 2]))
            own = {new[0].id: vectors[:3], new[1].id: vectors[:0], new[2].id: vectors[3:]}
        elif what == "update":
            new = [Entity(id, "changed", types=("odd",)) for id in rng.choice(list(kb), 2, replace=False).tolist()]
            vectors = unit_vectors(2, DIM, 300 + step)
            kb.update(new, NewVectors(here, vectors))
            own = dict(zip((e.id for e in new), vectors[:, None], strict=True))
        elif what == "remove":
            gone = rng.choice(list(kb), 4, replace=False).tolist()
            kb.remove(gone)
            model = {one: {id: v for id, v in vectors.items() if id not in gone} for one, vectors in model.items()}
        elif what == "index":
            model[here] = draw(list(kb), 400 + step)
            put_index(kb, here, model[here])
        elif what == "compact":
            kb.compact()
            assert kb.n_rows == len(kb) and kb.n_added == 0
        elif what == "drop":
            kb.drop_index("b")
            model["b"] = draw(list(kb), 500 + step)
            put_index(kb, "b", model["b"])
        else:
            kb = KnowledgeBase(kb.path)
        if what.startswith("add") or what == "update":
            nothing = np.zeros((0, DIM), "float32")
            model = {
                one: vectors | {id: v if one == here else nothing for id, v in own.items()}
                for one, vectors in model.items()
            }
        if other.meta["numbering"] != kb.meta["numbering"]:
            other = KnowledgeBase(kb.path)
        for fingerprint, vectors in model.items():
            check(kb, fingerprint, vectors)
            check(other, fingerprint, vectors)
    assert verify(kb) == []
    copy = kb.copy_to(tmp_path / "copy", indexes=["b"])
    assert list(copy.indexes) == ["b"] and verify(copy) == []
    check(copy, "b", model["b"])
    assert {file.name for file in (copy.path / "indexes").iterdir()} == {"b"}


@pytest.mark.parametrize("most_passed_over", [0, 10, 5000])
@pytest.mark.parametrize("index_type", ["flat", "IVF16,PQ8x4fs,Refine(SQ8)", "IVF16,Flat", "SQ8", "HNSW8"])
def test_removed_entities_never_come_back(tmp_path, monkeypatch, index_type, most_passed_over):
    monkeypatch.setattr("spacy_pel.kb.index.entity_index.MOST_PASSED_OVER", most_passed_over)
    monkeypatch.setattr("spacy_pel.kb.index.vectors.BLOCK", 100)
    rng = np.random.default_rng(3)
    vectors = np.repeat(rng.normal(size=(100, 16)), 10, axis=0) + 0.3 * rng.normal(size=(1000, 16))
    kb = make_kb(tmp_path / "kb", 1000)
    kb.index([vectors.astype("float32")], dim=16, metric="dot", fingerprint="abc", index_type=index_type)
    kb.remove([f"E{i}" for i in range(0, 500)])  # whole clusters
    _, rows = kb.entity_index().search(vectors[::25], 5)
    assert (rows >= 500).all()
    exact = np.argsort(-vectors[::25] @ vectors[500:].T)[:, :5] + 500
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(rows.tolist(), exact.tolist())]) > 0.6
    if index_type == "flat":
        assert (rows == exact).all()


def test_a_second_encoder_leaves_the_index_of_the_first_as_it_is(tmp_path):
    kb = make_kb(tmp_path / "kb", 20)
    a, b = unit_vectors(20, DIM, 1), unit_vectors(20, 4, 2)
    kb.index([a], dim=DIM, metric="cosine", fingerprint="a")
    open_elsewhere = KnowledgeBase(kb.path)
    files = {path: path.read_bytes() for path in (kb.path / "indexes").rglob("*.*")}
    before = [found.tolist() for found in kb.entity_index("a").search(a, 3)]
    kb.index([b], dim=4, metric="dot", fingerprint="b")
    for one in (kb, open_elsewhere):
        assert [found.tolist() for found in one.entity_index("a").search(a, 3)] == before
        assert one.entity_index("b").search(b, 1)[1].ravel().tolist() == np.argmax(b @ b.T, axis=1).tolist()
    assert {path: path.read_bytes() for path in files} == files
    kb.add([Entity("new", "new")], NewVectors("a", a[:1]))
    assert (kb.entity_index("a").n_missing, kb.entity_index("b").n_missing) == (0, 1)
    kb.remove(["E3"])
    kb.index([b], dim=4, metric="dot", fingerprint="b")  # the rows stay as they are for whoever searches in `a`
    assert kb.n_removed == 1 and open_elsewhere.entity_index("a").search(a[:1], 2)[1].tolist() == [[0, 20]]
    kb.drop_index("b")
    assert list(kb.indexes) == ["a"] and not (kb.path / "indexes" / "b").exists()


@pytest.mark.parametrize("names", [False, True])
def test_an_index_whose_entities_another_linker_has_all_updated(tmp_path, names):
    kb = make_kb(tmp_path / "kb", 5)
    vectors = unit_vectors(5, DIM)
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint="a")
    owners = Owners(np.arange(5), np.zeros(5, np.int64)) if names else None
    kb.index([vectors[:1] if names else vectors], dim=DIM, metric="cosine", fingerprint="b", owners=owners)
    kb.update(list(kb.entities()), NewVectors("a", vectors))
    kb.compact()
    for one in (kb, KnowledgeBase(kb.path)):
        index = one.entity_index("b")
        scores, rows, places = index.nearest(vectors, 3)
        assert (rows == -1).all() and (places == -1).all() and (scores == -np.inf).all()
        assert (index.n_vectors, index.n_missing, index.squared_length) == (0, 5, 1.0)
        assert one.entity_index("a").search(vectors, 1)[1].ravel().tolist() == [0, 1, 2, 3, 4]
    kb.add([Entity("new", "new")], NewVectors("b", vectors[:1]))
    assert kb.entity_index("b").search(vectors[:1], 2)[1].tolist() == [[5, -1]]
    kb.compact()
    assert kb.entity_index("b").search(vectors[:1], 2)[1].tolist() == [[5, -1]] and verify(kb) == []


def test_a_search_for_no_entities_finds_none(tmp_path):
    kb = make_kb(tmp_path / "kb", 20)
    kb.index([unit_vectors(20, 4)], dim=4, metric="cosine", fingerprint="a")
    for id in ("one", "another"):
        for within in (None, np.arange(5)):
            scores, rows = kb.entity_index().search(unit_vectors(3, 4), 0, within)
            assert scores.shape == rows.shape == (3, 0) and (scores.dtype, rows.dtype) == (np.float32, np.int64)
        kb.add([Entity(id, id)], NewVectors("a", unit_vectors(1, 4)))


def test_which_index(tmp_path):
    kb = make_kb(tmp_path / "kb", 5)
    with pytest.raises(PelError, match="has no vectors; run"):
        kb.entity_index("a")
    for fingerprint in ("a", "b"):
        kb.index([unit_vectors(5, DIM)], dim=DIM, metric="cosine", fingerprint=fingerprint)
    with pytest.raises(PelError, match='several encoders; name one by its fingerprint: "a", "b"'):
        kb.entity_index()
    with pytest.raises(PelError, match='no vectors of the encoder "c", only of "a", "b"'):
        kb.entity_index("c")
    held = kb.entity_index("b")
    kb.drop_index("b")
    kb.drop_index("b")
    assert kb.entity_index() is kb.entity_index("a")
    with pytest.raises(PelError, match='the index "b" is no longer in this KB'):
        held.search(unit_vectors(1, DIM), 1)


@pytest.mark.parametrize("k", [1, 3, 7, 40])
def test_the_best_columns_are_those_of_a_whole_sort(k):
    rng = np.random.default_rng(k)
    scores = rng.integers(-2, 3, (30, 90)).astype("float32")  # with many ties, also between 0 and -0
    scores[:10] = np.where(rng.random((10, 90)) < 0.9, np.float32(-np.inf), scores[:10])
    scores[10] = -0.0
    numbers = VectorNumbers(rng.permuted(np.tile(np.arange(90), (30, 1)), axis=1))
    numbers[rng.random(numbers.shape) < 0.2] = -1
    known = np.where(numbers < 0, np.float32(-np.inf), scores)
    order = np.lexsort((numbers, -known), axis=-1)[:, :k]
    expected = [np.take_along_axis(own, order, axis=1).tolist() for own in (known, numbers)]
    assert [own.tolist() for own in best(scores, numbers, k)] == expected


@pytest.mark.parametrize("types", [None, ["odd"]])
def test_many_added_vectors_are_searched_block_by_block(tmp_path, monkeypatch, types):
    kb = make_kb(tmp_path / "kb", 10)
    rng = np.random.default_rng(0)
    draw = lambda n: rng.integers(-2, 3, (n, DIM)).astype("float32")  # noqa: E731  # whose products are exact, with ties
    kb.index([draw(10)], dim=DIM, metric="dot", fingerprint="a")
    new = [Entity(f"N{i}", "new", types=(("even", "odd")[i % 2],)) for i in range(60)]
    kb.add(new, NewVectors("a", draw(90), np.sort(rng.integers(0, 60, 90)).tolist()))
    within, queries, products = None if types is None else kb.rows_of_types(types), draw(20), []
    whole = [own.tolist() for own in kb.entity_index().nearest(queries, 9, within)]
    monkeypatch.setattr("spacy_pel.kb.index.entity_index.PRODUCTS", 300)
    scores = PendingEdits.scores
    monkeypatch.setattr(PendingEdits, "scores", lambda *given: products.append(scores(*given)) or products[-1])
    assert [own.tolist() for own in kb.entity_index().nearest(queries, 9, within)] == whole
    assert len(products) == 7 and max(own.size for own, _ in products) <= 300


@pytest.mark.parametrize("fingerprint", ["../../evil", "made up", "", "ABC", ".", "a/b", "x" * 300, "ключ"])
def test_any_fingerprint_gives_a_safe_folder(tmp_path, fingerprint):
    kb = make_kb(tmp_path / "kb", 5)
    vectors = unit_vectors(5, DIM)
    kb.index([vectors], dim=DIM, metric="cosine", fingerprint=fingerprint)
    assert folder_of(fingerprint) != folder_of(fingerprint + "x")
    (folder,) = (kb.path / "indexes").iterdir()
    assert len(folder.name) == 32 and list(KnowledgeBase(kb.path).indexes) == [fingerprint]
    assert kb.entity_index(fingerprint).search(vectors, 1)[1].ravel().tolist() == list(range(5))


@pytest.mark.parametrize("owners", [[], [1, 0], [0, 5], [-1, 0], [0, 2]])
def test_owners_must_be_entities_in_the_order_of_their_rows(tmp_path, owners):
    kb = make_kb(tmp_path / "kb", 5)
    kb.remove(["E2"])
    with pytest.raises(PelError, match="must be rows of entities, ascending"):
        kb.index([unit_vectors(2, DIM)], dim=DIM, metric="cosine", fingerprint="a", owners=np.array(owners))
    assert not kb.indexes
    kb.index([unit_vectors(4, DIM)], dim=DIM, metric="cosine", fingerprint="a")
    for owners in ([1], [0, 0, 1]):
        with pytest.raises(PelError, match=r"ascending places among 1 entities|shape"):
            kb.add([Entity("X", "x")], NewVectors("a", unit_vectors(len(owners), DIM), owners))


@pytest.mark.parametrize("numbers", [[0, 2], [1, 1], [0]])
def test_a_vector_without_an_owner_is_refused(tmp_path, numbers):
    kb = make_kb(tmp_path / "kb", 2)
    owners = Owners(np.arange(2), np.array(numbers))
    with pytest.raises(PelError, match="each vector must have an owner"):
        kb.index([unit_vectors(owners.n_vectors, DIM)], dim=DIM, metric="cosine", fingerprint="a", owners=owners)
    assert not kb.indexes


def test_verify_names_the_index_and_finds_foreign_owners(tmp_path):
    kb = make_kb(tmp_path / "kb", 5)
    for fingerprint in ("a", "b"):
        kb.index([unit_vectors(5, DIM)], dim=DIM, metric="cosine", fingerprint=fingerprint)
    assert verify(kb) == []

    def edit(_, meta):
        owners = kb.path / meta["indexes"]["b"]["files"]["owners"]["name"]
        np.save(owners, np.array([0, 1, 2, 9, 3]))
        meta["indexes"]["b"]["files"]["owners"]["sample"] = sample_digest(owners)

    kb.records.change(edit)
    problems = verify(KnowledgeBase(kb.path))
    assert len(problems) == 3 and "owners-1.npy: its SHA-256" in problems[0]
    assert "index b: the owners of the vectors are not in the order" in problems[1]
    assert "index b: 1 vectors belong to no entity" in problems[2]


def test_owners_that_are_no_entities_are_named_by_a_search(tmp_path):
    for number, wrong in enumerate(([0, 1, 2, 3, 5], [0, 3, 2, 3, 4], [-1, 0, 1, 2, 3])):
        kb = make_kb(tmp_path / f"kb{number}", 5)
        kb.index([unit_vectors(5, DIM)], dim=DIM, metric="cosine", fingerprint="a")

        def edit(_, meta, kb=kb, wrong=wrong):
            owners = meta["indexes"]["a"]["files"]["owners"]
            np.save(kb.path / owners["name"], np.array(wrong))
            owners["sample"] = sample_digest(kb.path / owners["name"])

        kb.records.change(edit)
        with pytest.raises(PelError, match=r"owners-1\.npy: is damaged"):
            KnowledgeBase(kb.path).entity_index().search(unit_vectors(1, DIM), 2)
