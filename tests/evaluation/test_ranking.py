"""Gold mentions through a linker, and the scorer on top."""

import pickle

import pytest
from lookup_linker import NLP, Ids, LookupLinker, make_doc
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry

from spacy_pel.evaluation import ranking
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.mentions.gold import GOLD_GROUP, gold_of
from spacy_pel.pipeline.settings import LinkSettings

FOUND = {"lithium": [("D1", 0.9), ("D2", 0.5)], "flutter": [("D3", 0.8), ("D2", 0.7)], "newborn": [("D4", 0.6)]}
DOCS = [
    make_doc(("lithium", "D1"), ("newborn", ""), ("flutter", "D2|D9")),
    make_doc(),
    make_doc(("unheard", "NIL"), ("newborn", "D4")),
]


def test_retired_gold_ids_count_as_their_successors():
    linker = LookupLinker(FOUND, Ids({"D1"}, {"D0": "D1"}))
    (mention,) = rank_mentions(linker, gold_of([make_doc(("lithium", "D0|D1"))], linker.kb), k=1)
    assert (mention.gold, mention.rank) == (("D1",), 1)


@pytest.mark.parametrize("chunk", [1, 2, 2048])
def test_order_candidates_and_unannotated_mentions(monkeypatch, chunk):
    monkeypatch.setattr(ranking, "CHUNK", chunk)
    linker = LookupLinker(FOUND, {"D1"})
    ranked = rank_mentions(linker, gold_of(iter(DOCS), linker.kb), k=64)
    assert [(mention.gold, list(mention.candidates)) for mention in ranked] == [
        (("D1",), FOUND["lithium"]),
        ((), []),
        (("D2", "D9"), FOUND["flutter"]),
        (("NIL",), []),
        (("D4",), FOUND["newborn"]),
    ]
    assert sum(n_spans for n_spans, _ in linker.calls) == 4
    assert {k for _, k in linker.calls} == {64}


def test_mentions_with_a_discarded_label_are_nil_as_in_a_pipeline():
    linker = LookupLinker(FOUND, {"D1", "D3"})
    linker.settings = LinkSettings(labels_discard=["DATE"])
    doc = make_doc(("lithium", "D1"), ("flutter", "D3"))
    doc.spans[GOLD_GROUP] = [doc.spans[GOLD_GROUP][0], Span(doc, 1, 2, label="DATE", kb_id="D3")]
    found, discarded = rank_mentions(linker, gold_of([doc], linker.kb), k=64)
    assert (found.rank, found.called_nil) == (1, False)
    assert (list(discarded.candidates), discarded.called_nil) == ([], True)
    assert linker.calls == [(1, 64)]


def make_examples(docs):
    return [Example(Doc(NLP.vocab, words=[token.text for token in doc]), doc) for doc in docs]


def test_the_registered_scorer_measures_the_references():
    score = pickle.loads(pickle.dumps(registry.scorers.get("spacy_pel.link_scorer.v1")()))
    linker = LookupLinker(FOUND, {"D1", "D2", "D3"})  # lithium: rank 1, flutter: rank 2
    scores = score(make_examples(DOCS), linker=linker, per_component=False)
    assert scores == {"nel_recall_at_1": 1 / 2, "nel_recall_at_64": 1.0, "nel_nil_f1": None}
    linker.threshold = 0.95
    assert score(make_examples(DOCS), linker=linker)["nel_nil_f1"] == pytest.approx(2 * 2 / (2 + 4))  # all under it


@pytest.mark.parametrize("kb", [None, set()])
@pytest.mark.parametrize("docs", [[], DOCS])
def test_the_scorer_says_none_without_kb_or_mentions_in_it(kb, docs):
    score = registry.scorers.get("spacy_pel.link_scorer.v1")()
    expected = {"nel_recall_at_1": None, "nel_recall_at_64": None, "nel_nil_f1": None}
    assert score(make_examples(docs), linker=LookupLinker(FOUND, kb)) == expected
