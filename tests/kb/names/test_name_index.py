"""The index of names: against the cosine typed in again, and through every change of a KB."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from tiny import ENTITIES, make_kb, unit_vectors

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names import file_names, tables
from spacy_pel.kb.names.normal_form import normalized
from spacy_pel.kb.records import digest
from spacy_pel.kb.verify import verify


def sets_of(entity):
    forms = {normalized(name) for name in (entity.name, *entity.aliases)}
    return [{f" {form} "[i : i + 3] for i in range(len(form))} for form in sorted(forms)]


def cosines(text, entities):
    """The definition: cosine of binary 3-gram vectors, each dimension times its idf, of the best name."""
    every = [own for entity in entities for own in sets_of(entity)]
    counts = Counter(gram for own in every for gram in own)
    weight = {gram: (math.log((1 + len(every)) / (1 + n)) + 1) ** 2 for gram, n in counts.items()}
    unknown = (math.log(1 + len(every)) + 1) ** 2

    def norm(own):
        return math.sqrt(sum(weight.get(gram, unknown) for gram in own))

    (query,) = sets_of(Entity("x", text))
    return [
        max(sum(weight[g] for g in own & query) / norm(own) / norm(query) for own in sets_of(entity))
        for entity in entities
    ]


def indexed(kb, dim=8):
    kb.index([unit_vectors(len(kb), dim)], dim=dim, metric="cosine", fingerprint="f")
    return kb


@pytest.mark.parametrize("text", ["aspirins", "Heart  FAILURE", "valve", "Ǆ", "x", "zzzz", "𝛼-lithium"])
def test_similarity_is_the_cosine(tmp_path, text):
    kb = make_kb(tmp_path / "kb")
    match = kb.names.match(text)
    scores = match.scores(np.arange(len(kb)))
    assert scores[:, 0] == pytest.approx(cosines(text, ENTITIES), abs=1e-6)
    exact = [normalized(text) in map(normalized, (e.name, *e.aliases)) for e in ENTITIES]
    assert scores[:, 1].tolist() == exact


def test_the_best_are_those_with_the_most_alike_names_and_all_exact_ones(tmp_path):
    kb = make_kb(tmp_path / "kb", [*ENTITIES, Entity("D1", "Cardiac arrest", ("Heart attack",))])
    match = kb.names.match("heart attack")
    similarity, exact = match.scores(np.arange(len(kb))).T
    assert exact.nonzero()[0].tolist() == [4, 12] and exact[[4, 12]].tolist() == [0.5, 0.5]  # they share it
    assert match.best(1).tolist() == sorted({4, 12})  # both have it as a name, and one is all that was asked for
    assert similarity[match.best(3)].tolist() == pytest.approx([1, np.sort(similarity)[-3], 1])
    assert match.best(100).tolist() == similarity.nonzero()[0].tolist() and 0 < (similarity == 0).sum() < len(kb)
    assert kb.names.match("zzzz").best(5).tolist() == []


def test_a_plural_that_is_no_name_matches_its_singular_exactly(tmp_path):
    names = ["neuron", "axis", "axes", "RA", "Neuron"]
    kb = make_kb(tmp_path / "kb", [Entity(str(i), name) for i, name in enumerate(names)])

    def scores(text, lang):
        return kb.names.match(text, lang).scores(np.arange(len(names))).T.tolist()

    similarity, exact = scores("Neurons", "en")
    assert exact == [0.5, 0, 0, 0, 0.5] and similarity == scores("neurons", "")[0]
    assert kb.names.match("neurons", "en").best(0).tolist() == [0, 4]
    assert scores("axes", "en")[1] == [0, 0, 1, 0, 0]
    for text, lang in (("neurons", "de"), ("heart neurons", "en"), ("RAS", "en"), ("ras", "en")):
        assert scores(text, lang)[1] == [0] * 5


def test_an_exact_name_is_shared_by_those_that_may_be_meant(tmp_path):
    kinds = [("cold", "Disease"), ("cold", "Feeling"), ("cold", "Food"), ("axes", "Tool"), ("axis", "Disease")]
    kb = make_kb(tmp_path / "kb", [Entity(str(i), name, types=(kind,)) for i, (name, kind) in enumerate(kinds)])

    def exact(text, *types):
        within = kb.rows_of_types(types) if types else None
        match = kb.names.match(text, "en")
        rows = match.best(0, within)
        return dict(zip(rows.tolist(), match.scores(rows, within)[:, 1].tolist(), strict=True))

    assert exact("cold") == pytest.approx(dict.fromkeys((0, 1, 2), 1 / 3))
    assert exact("cold", "Disease") == {0: 1} and exact("cold", "Feeling", "Food") == {1: 0.5, 2: 0.5}
    assert exact("cold", "Tool") == {}
    assert exact("axes") == exact("axes", "Tool") == {3: 1} and exact("axes", "Disease") == {4: 1}  # the singular


def test_a_kb_of_many_names_that_an_older_version_wrote_is_compared_by_its_records(tmp_path):
    """It kept the weights of a sample of the names, and no lists of names. Compacted, it is searched as any other."""
    kb, small = make_kb(tmp_path / "kb"), make_kb(tmp_path / "small")

    def edit(connection, meta):
        connection.execute("DELETE FROM postings")
        connection.execute("DELETE FROM name_arrays WHERE key IN ('norms', 'first')")
        digest.count_again(connection, meta, ("postings", "name_arrays"))
        meta["names"]["rows"] = 0

    kb.records.change(edit)
    kb = KnowledgeBase(kb.path)
    assert verify(kb) == [] and kb.names.match("heart").best(5).tolist() == []
    assert kb.names.match("MI").best(5).tolist() == [4]
    rows = np.array([7, 4, 11])
    ours, theirs = (one.names.match("heart attacks").scores(rows) for one in (kb, small))
    assert ours == pytest.approx(theirs, abs=1e-6) and ours[2, 0] == 0 < ours[0, 0]
    kb.compact()
    assert kb.names.match("heart").best(5).tolist() == small.names.match("heart").best(5).tolist() != []


def test_additions_removals_and_compaction(tmp_path):
    kb = indexed(make_kb(tmp_path / "kb"))
    new = Entity("D1", "Heart block", ("AV block",))
    kb.add([new], NewVectors("f", unit_vectors(1, 8)))
    kb.remove(["D009203"])
    match = kb.names.match("AV block")
    assert 12 in match.best(3)  # by its exact name: no search by 3-grams finds it yet
    assert 12 not in kb.names.match("AV blocks").best(100)
    assert match.scores(np.array([3, 12]))[1].tolist() == pytest.approx([1, 1], abs=1e-6)
    assert kb.names.match("heart attack").scores(np.array([12]))[0, 0] > 0.2
    assert len(kb.names.match("heart attack").best(1)) == 1  # a removed row, which `similarities` passes over
    products, nth = kb.entity_index().similarities(unit_vectors(1, 8), np.zeros(3, int), np.array([4, 7, 12]))
    assert nth.tolist() == [-1, 0, 0] and products[2] == pytest.approx(1)

    kb.compact()
    kept = [e for e in ENTITIES if e.id != "D009203"] + [new]
    assert kb.meta["names"]["rows"] == len(kept) == 12
    scores = kb.names.match("heart blocks").scores(np.arange(12))[:, 0]
    assert scores == pytest.approx(cosines("heart blocks", kept), abs=1e-6)


@pytest.mark.parametrize("most_in_tables", [100_000, 10])
def test_removed_entities_take_the_place_of_no_other(tmp_path, monkeypatch, most_in_tables):
    monkeypatch.setattr(tables, "MOST_NAMES", most_in_tables)
    monkeypatch.setattr(file_names, "COMPARED", 20)
    monkeypatch.setattr(file_names, "PER_RESULT", 2)
    alike = [Entity(f"S{i}", f"glycogen storage disease type {i}") for i in range(60)]
    kb = make_kb(tmp_path / "kb", [*alike, Entity("G", "glycogenosis storage disorder")])
    match = lambda: kb.ids(kb.names.match("glycogen storage diseas").best(10)).tolist()  # noqa: E731
    assert "G" not in match()
    KnowledgeBase(kb.path).remove([entity.id for entity in alike])
    assert len(kb) == 1 and match() == ["G"]


def test_names_that_change_are_found_after_compaction(tmp_path):
    """As many names as before, so that nothing but what they are tells the new index from the old one."""
    kb = indexed(make_kb(tmp_path / "kb"))
    kb.names.match("heart")
    changed = [Entity("D009203", "Coronary Occlusion", ("blocked artery", "CO"), ("Disease",))]
    kb.update(changed, NewVectors("f", unit_vectors(1, 8)))
    kb.compact()
    now = list(kb.values())
    for text in ("coronary occlusions", "cardiac failures"):
        assert kb.names.match(text).scores(np.arange(12))[:, 0] == pytest.approx(cosines(text, now), abs=1e-6)


def test_the_best_within_some_rows(tmp_path):
    match = make_kb(tmp_path / "kb").names.match("heart attack")
    assert match.best(1).tolist() == [4] and match.best(1, np.array([0, 7, 40])).tolist() == [7]
    assert match.best(1, np.array([4, 7])).tolist() == [4] and match.best(3, np.array([8])).tolist() == []


def test_another_process_compacts(tmp_path):
    kb = indexed(make_kb(tmp_path / "kb"))
    assert kb.names.match("heart").scores(np.array([7]))[0, 0] > 0
    other = KnowledgeBase(kb.path)
    other.add([Entity("D1", "Heart block")], NewVectors("f", unit_vectors(1, 8)))
    other.compact()
    assert kb.names.match("heart block").scores(np.array([12]))[0].tolist() == pytest.approx([1, 1], abs=1e-6)


def test_an_index_that_is_written_again_amid_a_look_up_is_read_again(tmp_path, monkeypatch):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity(f"E{i}", f"compound {i}") for i in range(5)])
    kb.names.match("compound")
    postings, other = kb.records.postings, KnowledgeBase(kb.path)

    def overtaken(grams):
        monkeypatch.setattr(kb.records, "postings", postings)
        other.add([Entity(f"N{i}", f"novel compound {i}") for i in range(50)])
        other.index([np.ones((55, 2), "float32")], dim=2, metric="dot", fingerprint="a")
        return postings(grams)

    monkeypatch.setattr(kb.records, "postings", overtaken)
    rows = kb.names.match("novel compound 49").best(1)
    assert kb.ids(rows).tolist() == ["N49"]
