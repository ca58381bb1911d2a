"""The setting `lexical`: names beside vectors, in `predict` and in `explain`."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import spacy
from tiny import ENTITIES, links, make_docs, make_examples, make_kb, make_pipeline, train, unit_vectors, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.pipeline.tuning import find_for_gold
from spacy_pel.search.explanation import Parts
from spacy_pel.search.find import TRIES, _searched
from spacy_pel.search.search import Queries, VectorSearch
from spacy_pel.search.weights import DEFAULT, NameWeights
from spacy_pel.tuning.tuned import Tuned

WEIGHTS = {"ngram": 0.5, "exact": 0.25}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lexical")
    kb = make_kb(folder / "kb")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), kb)
    train(nlp, examples, optimizer, 5)
    linker.index(progress=False)
    return nlp, linker


@pytest.fixture
def linker(trained):
    _, linker = trained
    linker.lexical, linker.types, linker.top_k, linker.max_candidates = "tuned", [], 64, 5
    linker.tuned = Tuned()
    return linker


def spans_of(nlp):
    doc = nlp.make_doc("Clonidines , heart attack and ASA in patients with zzz .")
    return [doc[0:1], doc[2:4], doc[5:6], doc[9:10]]


def test_the_score_is_the_weighted_mean():
    weights = NameWeights(0.5, 0.25)
    parts = {"similarity": np.array([0.4, 1.0]), "ngram": np.array([0.8, 1]), "exact": np.array([1, 1])}
    assert weights.score(parts) == pytest.approx([1.05 / 1.75, 1.0])


def test_untuned_is_by_the_default_weights(trained, linker):
    spans = spans_of(trained[0])
    untuned = linker.rank(spans, 4)
    linker.lexical = DEFAULT.as_setting()
    assert linker.rank(spans, 4) == untuned and linker.name_weights == DEFAULT


def test_null_is_the_search_by_vectors(trained, linker):
    spans = spans_of(trained[0])
    plain = linker.rank(spans, 4, search=VectorSearch(linker.kb.entity_index().search))
    linker.tuned, linker.lexical = Tuned(NameWeights(**WEIGHTS)), None
    assert linker.rank(spans, 4) == plain


def test_every_entity_scored_by_hand(trained, linker):
    nlp, kb = trained[0], linker.kb
    spans = spans_of(nlp)
    linker.lexical = None
    cosines = [dict(found) for found in linker.rank(spans, len(kb))]
    linker.lexical = WEIGHTS
    for span, cosine, found in zip(spans, cosines, linker.rank(spans, len(kb)), strict=True):
        lexical = dict(zip(kb, kb.names.match(span.text, "en").scores(np.arange(len(kb))).tolist(), strict=True))
        by_hand = {id_: (cosine[id_] + 0.5 * lexical[id_][0] + 0.25 * lexical[id_][1]) / 1.75 for id_ in kb}
        assert dict(found) == pytest.approx(by_hand, abs=1e-5)
        assert [score for _, score in found] == sorted(dict(found).values(), reverse=True)


def test_an_entity_that_its_vector_does_not_find_is_found_by_name(trained, linker):
    """With top_k = 1 either side gives one candidate; the vector's is not the one of that name."""
    linker.lexical, linker.max_candidates, linker.top_k = {"ngram": 0, "exact": 10}, 1, 1
    doc = trained[0].make_doc("depression MI AF")
    found = [linker.rank([doc[i : i + 1]], 1)[0][0][0] for i in range(3)]
    linker.lexical = None
    by_vector = [linker.rank([doc[i : i + 1]], 1)[0][0][0] for i in range(3)]
    assert found == ["D003866", "D009203", "D001281"] != by_vector


def test_the_best_are_the_same_however_many_are_asked_for(trained, linker):
    """Of "heart valve" the best is neither the one of the best vector nor that of the most alike name."""
    spans = [*spans_of(trained[0]), trained[0].make_doc("heart valve")[0:2]]
    linker.lexical = WEIGHTS
    for n in (1, 2, 5):
        assert linker.rank(spans, n) == [found[:n] for found in linker.rank(spans, 12)]
    for span, found in zip(spans, linker.rank(spans, 12), strict=True):
        assert [one.id for one in linker.explain(span, 1).candidates] == [found[0][0]]


def test_spans_that_the_encoder_reads_alike_keep_their_names(trained, linker):
    """It drops accents; names do not."""
    linker.lexical = WEIGHTS
    spans = [trained[0].make_doc(f"{word} .")[0:1] for word in ("aspirín", "aspirin")]
    for found, alone in zip(linker.rank(spans, 3), (linker.rank([span], 3)[0] for span in spans), strict=True):
        assert [id_ for id_, _ in found] == [id_ for id_, _ in alone]
        assert [score for _, score in found] == pytest.approx([score for _, score in alone], abs=1e-5)
    assert linker.rank(spans, 3)[0][0][1] < linker.rank(spans, 3)[1][0][1]


def test_types_hold_while_weights_are_fitted(trained, linker):
    docs = make_docs(trained[0])
    linker.types = ["Disease"]
    linker.max_candidates, linker.top_k = 3, 3
    found = find_for_gold(linker, docs)
    kinds = {kind for one in found for id_ in one.found.ids for kind in linker.kb[id_].types}
    assert len(found) == 12 and kinds == {"Disease"}


def test_types_hold_for_both_sides(trained, linker):
    linker.lexical, linker.types = {"ngram": 1, "exact": 10}, ["Disease"]
    doc = trained[0].make_doc("aspirin")
    found = linker.rank([doc[0:1]], 12)[0]
    assert {id_ for id_, _ in found} == {e.id for e in ENTITIES if "Disease" in e.types}


def test_tuned_weights_are_saved_and_forgotten_by_training(trained, linker, tmp_path):
    nlp, _ = trained
    linker.tuned = Tuned(NameWeights(**WEIGHTS))
    doc = nlp.make_doc("She had a heart attack .")
    doc.ents = [doc.char_span(10, 22, label="X")]
    before = nlp(doc).ents[0]._.kb_ents
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    other = loaded.get_pipe("pel_linker")
    assert other.name_weights == NameWeights(0.5, 0.25)
    doc = loaded.make_doc(doc.text)
    doc.ents = [doc.char_span(10, 22, label="X")]
    assert loaded(doc).ents[0]._.kb_ents == before
    loaded.update(make_examples(loaded), sgd=loaded.create_optimizer())
    assert other.tuned.name_weights is None and other.name_weights == DEFAULT


def test_explain_shows_the_parts(trained, linker):
    nlp, _ = trained
    doc = nlp.make_doc("She had a heart attack .")
    doc.ents = [doc.char_span(10, 22, label="X")]
    linker.lexical = None
    assert linker.explain(doc.ents[0]).candidates[0].parts is None
    linker.lexical = WEIGHTS
    told = linker.explain(nlp(doc).ents[0], 4)
    for one in told.candidates:
        assert one.score == pytest.approx(
            (one.parts.similarity + 0.5 * one.parts.ngram + 0.25 * one.parts.exact) / 1.75,
            abs=1e-6,  # float32: parts of size 1 may cancel
        )
    best = next(one for one in told.candidates if one.id == "D009203")
    assert (best.parts.ngram, best.parts.exact) == (pytest.approx(1), 1)
    assert f"(similarity {best.parts.similarity:.3f}, 3-grams 1.000, an exact name)" in str(told)
    assert links(doc) == [("heart attack", told.kb_id)]
    assert str(Parts(0.5, 1, 1 / 3)) == "similarity 0.500, 3-grams 1.000, an exact name of 3 entities"


def test_the_parts_of_what_is_filtered_are_of_the_form_that_was_read(trained, linker):
    """With the filter the short form scores best, without it the long one."""
    nlp, _ = trained
    doc = nlp.make_doc("A heart attack ( HA ) came . Then HA again .")
    doc.ents = [doc.char_span(34, 36, label="X")]
    linker.lexical, linker.types = WEIGHTS, ["Chemical"]
    told = linker.explain(doc.ents[0], 3)
    (best,) = [one for one in told.filtered if one.id == "D009203"]
    assert (best.parts.ngram, best.parts.exact) == (pytest.approx(1), 1)
    for one in told.candidates + told.filtered:
        expected = (one.parts.similarity + 0.5 * one.parts.ngram + 0.25 * one.parts.exact) / 1.75
        assert one.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("value", ["fitted", {"ngram": 1}, {"ngram": -1, "exact": 0}, {"ngram": "1", "exact": 0}, 0.3])
def test_settings_that_are_none(trained, linker, value):
    with pytest.raises(PelError, match=r"components.pel_linker\]: lexical"):
        linker.lexical = value


def test_while_training_only_vectors_count(trained, linker, tmp_path):
    nlp, other, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), lexical=WEIGHTS
    )
    train(nlp, examples, optimizer, 1)
    scores = other.score(examples)
    other.lexical = None
    assert other.score(examples) == scores


@pytest.mark.parametrize("compactions", [1, TRIES])
def test_a_compaction_amid_a_search_begins_it_anew(tmp_path, compactions):
    """As another thread may do between a search and the look-up of ids."""
    ids = [f"E{i}" for i in range(30)]
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity(id, f"name {id}") for id in ids])
    kb.index([unit_vectors(30, 8)], dim=8, metric="cosine", fingerprint="a")
    gone, queries = iter(ids[:compactions]), Queries(["x"], unit_vectors(1, 8))

    def overtaken(vectors, k, within):
        found = kb.entity_index().search(vectors, k, within)
        for id in islice(gone, 1):
            kb.remove([id])
            kb.compact()
        return found

    if compactions < TRIES:
        _, [(found, *_)] = _searched(kb, VectorSearch(overtaken), queries, 30, None, None)
        assert sorted(found) == sorted(ids[1:])
    else:
        with pytest.raises(IndexError):
            _searched(kb, VectorSearch(overtaken), queries, 30, None, None)
