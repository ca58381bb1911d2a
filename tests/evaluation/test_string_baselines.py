"""Baselines by strings: what each finds, what long forms add, and that they are measured as a linker is."""

import sys

import pytest
import spacy
from lookup_linker import make_doc
from spacy.tokens import Span

from spacy_pel.errors import PelError
from spacy_pel.evaluation.baselines import (
    LARGE,
    ExactAlias,
    Tfidf,
    evaluate_baselines,
    measure,
    merged,
    rank_strings,
    string_mentions,
)
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP

ENTITIES = [
    Entity("D1", "Heart Failure", aliases=("cardiac failure", "HF")),
    Entity("D2", "Renal Failure", aliases=("kidney failure",)),
    Entity("D3", "Hafnium", aliases=("hf",)),
]


@pytest.fixture
def kb(tmp_path):
    return KnowledgeBase.create(tmp_path / "kb", ENTITIES)


def abbreviated(text="Acute kidney failure (AKF) came back, and AKF was seen.", short="AKF", kb_id="D2"):
    """A Doc that defines `short` and mentions it twice."""
    doc = spacy.blank("en").make_doc(text)
    tokens = [token.i for token in doc if token.text == short]
    doc.spans[GOLD_GROUP] = [Span(doc, i, i + 1, label="X", kb_id=kb_id) for i in tokens]
    return doc


def test_an_exact_alias_ignores_case_and_ties_go_to_the_first_of_the_kb():
    found = ExactAlias(ENTITIES).search(["hf", "KIDNEY failure", "liver failure"], 64)
    assert found == [[("D1", 1.0), ("D3", 1.0)], [("D2", 1.0)], []]
    assert ExactAlias(ENTITIES).search(["hf"], 1) == [[("D1", 1.0)]]


def test_tfidf_scores_an_entity_as_its_best_name():
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    first, unlike, tied, same = Tfidf(ENTITIES).search(["cardiac failures", "qqq", "failure", "renal failure"], 2)
    assert first[0][0] == "D1" and first[0][1] > first[1][1] > 0
    assert unlike == []
    assert {id_ for id_, _ in tied} == {"D1", "D2"}
    assert same[0] == ("D2", pytest.approx(1, abs=1e-6))


def test_tfidf_of_many_names_without_a_common_3_gram():
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    entities = [Entity(f"D{i}", chr(0x4E00 + i) + chr(0x5E00 + i)) for i in range(LARGE + 1)]
    assert Tfidf(entities).search([entities[7].name], 1) == [[("D7", pytest.approx(1, abs=1e-6))]]


def test_tfidf_finds_the_same_in_batches_of_any_size():
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    texts = ["cardiac failures", "hafnium", "failure", "x"]
    assert Tfidf(ENTITIES, batch=1).search(texts, 3) == Tfidf(ENTITIES, batch=3).search(texts, 3)


def test_an_abbreviation_is_looked_up_by_its_long_form_too(kb):
    mentions = string_mentions([abbreviated(), make_doc(("HF", "D3"))], kb)
    assert [mention.other_texts for mention in mentions] == [*[("Acute kidney failure",)] * 2, ()]
    search = ExactAlias([*ENTITIES, Entity("D4", "acute kidney failure"), Entity("D5", "AKF")])
    assert [one.candidates for one in rank_strings(search, mentions[:1], 64)] == [[("D5", 1.0)]]
    (one,) = rank_strings(search, mentions[:1], 64, with_long_forms=True)
    assert one.gold == ("D2",) and one.candidates == [("D4", 1.0), ("D5", 1.0)]
    assert rank_strings(search, mentions[2:], 64) == rank_strings(search, mentions[2:], 64, with_long_forms=True)


def test_a_mention_is_looked_up_by_its_other_name_too(kb):
    doc = spacy.blank("en").make_doc("Zq4 (kidney failure) came back; Zq4 was seen.")
    doc.spans[GOLD_GROUP] = [Span(doc, *place, label="X", kb_id="D2") for place in ((0, 1), (2, 4), (8, 9))]
    mentions = string_mentions([doc], kb)
    assert [one.other_texts for one in mentions] == [("kidney failure",), ("Zq4",), ("kidney failure",)]
    ranked = rank_strings(ExactAlias(ENTITIES), mentions, 64, with_long_forms=True)
    assert [one.candidates for one in ranked] == [[("D2", 1.0)]] * 3


def test_the_better_score_of_an_entity_counts():
    assert merged([[("A", 0.5), ("B", 0.4)], [("B", 0.9), ("C", 0.5)]], 2) == [("B", 0.9), ("A", 0.5)]
    assert merged([], 2) == []


def test_measures_of_all_baselines(kb):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    docs = [abbreviated(), make_doc(("HF", "D1"), ("aspirin", "D9"))]
    train = [make_doc(("HF", "D1"), ("hf", "D3"))]
    found = dict(evaluate_baselines(kb, docs, train=train, tune=docs))
    assert list(found) == ["exact-alias", "tfidf", "tfidf-long-forms"]
    assert [values["recall_at_1"] for values in found.values()] == pytest.approx([1 / 3, 1 / 3, 1])
    assert [values["unseen_recall_at_1"] for values in found.values()] == [0, 0, 1]
    for values in found.values():
        assert (values["n_mentions"], values["n_in_kb"], values["n_ambiguous"]) == (4, 3, 1)
        assert values["ambiguous_recall_at_1"] == 1 and values["mentions_per_second"] > 0
        assert values["nil_threshold"] is not None
    assert found["tfidf-long-forms"]["nil_f1"] == 1


def test_recall_at_5_is_not_that_of_fewer_candidates(kb):
    values = measure(ExactAlias(ENTITIES), string_mentions([make_doc(("HF", "D3"))], kb), kb, k=1)
    assert (values["recall_at_1"], values["recall_at_5"], values["mrr"]) == (0, 1, 0.5)


def test_without_a_corpus_to_tune_on_nothing_is_nil(kb):
    values = measure(ExactAlias(ENTITIES), string_mentions([make_doc(("HF", "D1"))], kb), kb)
    assert values["nil_threshold"] is values["nil_f1"] is values["seen_recall_at_1"] is None


def test_retired_ids_count_as_their_successors(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", ENTITIES, retired=[("D0", "D1")])
    (mention,) = string_mentions([make_doc(("HF", "D0"))], kb)
    assert mention.gold.ids == ("D1",)


def test_errors(kb, monkeypatch):
    with pytest.raises(PelError, match="no annotated mention"):
        measure(ExactAlias(ENTITIES), string_mentions([make_doc(("HF", ""))], kb), kb)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(PelError, match=r"spacy-pel\[baselines\]"):
        next(evaluate_baselines(kb, [make_doc(("HF", "D1"))]))
