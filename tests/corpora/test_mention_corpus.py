"""One linked mention an Example."""

import pickle
from itertools import product

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.util import registry

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP

NLP = spacy.blank("en")


def make_doc(n_tokens, mentions):
    doc = Doc(NLP.vocab, words=[f"w{i}" for i in range(n_tokens)], spaces=[i % 2 == 0 for i in range(n_tokens)])
    doc.spans[GOLD_GROUP] = [Span(doc, start, end, label="Disease", kb_id=kb_id) for start, end, kb_id in mentions]
    return doc


@pytest.fixture
def write(tmp_path):
    def write_corpus(*docs):
        write_docs(tmp_path / "train.spacy", docs)
        return tmp_path / "train.spacy"

    return write_corpus


def id_of(example):
    return example.reference.ents[0].kb_id_


def ids(examples):
    return [id_of(example) for example in examples]


def test_the_window_and_what_the_docs_hold(write):
    path = write(make_doc(100, [(50, 52, "D1|D2")]))
    (example,) = MentionCorpus(path, window=3)(spacy.blank("en"))
    words = [f"w{i}" for i in range(47, 55)]
    assert [token.text for token in example.reference] == [token.text for token in example.predicted] == words
    assert example.reference.text == example.predicted.text == "w47w48 w49w50 w51w52 w53w54 "
    (ent,), (span,) = example.reference.ents, example.reference.spans[GOLD_GROUP]
    assert (ent.start, ent.end, ent.label_, ent.kb_id_) == (3, 5, "Disease", "D1|D2")
    assert (span.start, span.end, span.label_, span.kb_id_) == (3, 5, "Disease", "D1|D2")
    assert not example.predicted.ents
    assert not example.predicted.spans


@pytest.mark.parametrize(("mention", "expected"), [((0, 1), (0, 4)), ((9, 10), (6, 10)), ((0, 10), (0, 10))])
def test_mentions_at_the_edges_and_longer_than_the_window(write, mention, expected):
    (example,) = MentionCorpus(write(make_doc(10, [(*mention, "D1")])), window=3)(NLP)
    assert [token.text for token in example.reference] == [f"w{i}" for i in range(*expected)]
    assert len(example.reference.ents[0]) == mention[1] - mention[0]


def test_only_mentions_with_an_id_and_every_nested_one(write):
    mentions = [(0, 1, "D1"), (1, 2, "NIL"), (2, 3, ""), (4, 8, "D2"), (5, 6, "D3")]
    assert sorted(ids(MentionCorpus(write(make_doc(10, mentions)))(NLP))) == ["D1", "D2", "D3"]


def test_every_call_has_its_own_order_and_every_run_the_same(write):
    path = write(*(make_doc(20, [(i, i + 1, f"D{doc}-{i}") for i in range(20)]) for doc in range(5)))
    corpus, again, other = MentionCorpus(path, seed=1), MentionCorpus(path, seed=1), MentionCorpus(path, seed=7)
    first, second = ids(corpus(NLP)), ids(corpus(NLP))
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 100
    assert first != second
    assert first != sorted(first)
    assert [ids(again(NLP)), ids(again(NLP))] == [first, second]
    assert ids(other(NLP)) != first


def test_the_limit_takes_the_same_mentions_in_every_call(write):
    path = write(make_doc(50, [(i, i + 1, f"D{i}") for i in range(50)]))
    corpus = MentionCorpus(path, limit=10)
    first, second = ids(corpus(NLP)), ids(corpus(NLP))
    assert len(first) == 10
    assert sorted(first) == sorted(second)
    assert len(ids(MentionCorpus(path, limit=99)(NLP))) == 50


def test_of_equal_mentions_of_a_document_one_comes(write):
    """The words w0 and W0 are equal; D2 is another id, and the second document another one."""
    docs = [Doc(NLP.vocab, words=["w0", "and", "W0", "and", "w0"]), Doc(NLP.vocab, words=["w0"])]
    for doc, mentions in zip(docs, [((0, "D1"), (2, "D1"), (4, "D2")), ((0, "D1"),)], strict=True):
        doc.spans[GOLD_GROUP] = [Span(doc, start, start + 1, "Drug", kb_id=kb_id) for start, kb_id in mentions]
    corpus = MentionCorpus(write(*docs), distinct=True)
    calls = [[(len(eg.reference), eg.reference.ents[0].start, id_of(eg)) for eg in corpus(NLP)] for _ in range(20)]
    assert all(sorted(id_ for *_, id_ in call) == ["D1", "D1", "D2"] for call in calls)
    assert {start for call in calls for length, start, id_ in call if length == 5 and id_ == "D1"} == {0, 2}
    for limit, seed in product((2, 3), range(6)):
        limited = MentionCorpus(write(*docs), distinct=True, limit=limit, seed=seed)
        calls = [sorted(ids(limited(NLP))) for _ in range(5)]
        assert len(calls[0]) == limit and calls == calls[:1] * 5
    with pytest.raises(PelError, match="distinct = 2"):
        MentionCorpus(write(*docs), distinct=2)


def test_mentions_that_the_kb_lacks_are_left_out(tmp_path, write):
    """An id that has become another one of the KB counts, and so does one of several."""
    path = write(make_doc(10, [(0, 1, "D1"), (1, 2, "D9"), (2, 3, "D0"), (3, 4, "D9|D2"), (4, 5, "NIL"), (5, 6, "")]))
    KnowledgeBase.create(tmp_path / "kb", [Entity("D1", "x"), Entity("D2", "y")], retired=[("D0", "D1")])
    assert sorted(ids(MentionCorpus(path, kb=tmp_path / "kb")(NLP))) == ["D0", "D1", "D9|D2"]
    assert len(ids(MentionCorpus(path, kb=tmp_path / "kb", limit=2)(NLP))) == 2
    KnowledgeBase.create(tmp_path / "other", [Entity("C1", "x")])
    with pytest.raises(PelError, match=r"train\.spacy has no mention with an id of the KB .*other .*'D1'.*'C1'"):
        next(MentionCorpus(path, kb=tmp_path / "other")(NLP))


def test_a_corpus_without_linked_mentions_is_refused(write):
    path = write(make_doc(10, [(0, 1, "NIL"), (1, 2, "")]), make_doc(0, []))
    with pytest.raises(PelError, match=r"train\.spacy has no mention with an id"):
        next(MentionCorpus(path)(NLP))


def test_a_missing_corpus_is_named_when_it_is_read(tmp_path):
    corpus = MentionCorpus(tmp_path / "none.spacy")
    with pytest.raises(PelError, match=r"none\.spacy does not exist"):
        next(corpus(NLP))


def test_the_registered_reader_with_its_defaults(write):
    path = write(make_doc(10, [(4, 5, "D1")]))
    corpus = registry.readers.get("spacy_pel.MentionCorpus.v1")(path)
    assert ids(pickle.loads(pickle.dumps(corpus))(NLP)) == ["D1"]
