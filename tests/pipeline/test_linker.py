"""The component as a spaCy pipe: overfit, save, load, same answers; pipe equals call; what it writes on the Doc."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import spacy
import srsly
from spacy.cli.find_threshold import find_threshold
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import ignore_error, raise_error
from spacy.vocab import Vocab
from thinc.api import Config
from tiny import (
    ENTITIES,
    SENTENCES,
    links,
    make_config,
    make_docs,
    make_examples,
    make_kb,
    make_pipeline,
    train,
    unlinked,
    write_encoder,
)

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.encoding import encode_spans
from spacy_pel.search import find
from spacy_pel.search.parts import EXACT
from spacy_pel.tuning.ranking import RankTuned
from spacy_pel.tuning.tuned import Tuned

GOLD = [[(surface, id_) for surface, id_ in mentions.items()] for _, mentions in SENTENCES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("linker")


@pytest.fixture(scope="module")
def trained(folder):
    """An overfitted, indexed pipeline and its Docs without gold."""
    kb = make_kb(folder / "kb")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), kb)
    losses = train(nlp, examples, optimizer, steps=200)
    assert losses[-1] < 0.1 * losses[0]
    linker.index(progress=False)
    return nlp


@pytest.fixture
def docs(trained):
    """Docs whose entities have a label and no id."""
    return unlinked(trained)


@pytest.mark.parametrize("layout", ["shared", "per_mention"])
@pytest.mark.parametrize("adversarial", [{"@misc": "spacy_pel.FGSM.v1"}, None], ids=["fgsm", "plain"])
@pytest.mark.parametrize(
    ("similarity", "loss"), [("cosine", "spacy_pel.ProxyLoss.v1"), ("dot", "spacy_pel.CrossEntropyLoss.v1")]
)
def test_overfit_save_load_same_answers(tmp_path, folder, layout, adversarial, similarity, loss):
    kb = make_kb(tmp_path / "kb")
    encoder = write_encoder(tmp_path / "encoder")
    nlp, linker, examples, optimizer = make_pipeline(
        encoder, kb, layout=layout, adversarial=adversarial, loss={"@misc": loss}, model={"similarity": similarity}
    )
    train(nlp, examples, optimizer, steps=200)
    linker.index(progress=False)
    docs = [nlp(doc) for doc in unlinked(nlp)]
    assert [links(doc) for doc in docs] == GOLD
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    for doc, copy in zip(docs, unlinked(again)):
        assert links(again(copy)) == links(doc)
        for ent, other in zip(doc.ents, copy.ents):
            assert [id_ for id_, _ in ent._.kb_ents] == [id_ for id_, _ in other._.kb_ents]
            np.testing.assert_allclose([s for _, s in ent._.kb_ents], [s for _, s in other._.kb_ents], atol=1e-6)


def test_shared_towers_overfit_and_reload(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), model={"shared_towers": True}
    )
    train(nlp, examples, optimizer, steps=200)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "pel_linker" / "model" / "entity").exists()
    again = spacy.load(tmp_path / "pipeline")
    assert [links(again(doc)) for doc in unlinked(again)] == GOLD


def test_what_is_written_on_the_doc(trained, docs):
    doc = trained(docs[0])
    ent = doc.ents[0]
    assert ent.kb_id_ == "D001241" and ent._.is_nil is False and ent.label_ == "X"
    assert all(token.ent_kb_id_ == "D001241" for token in ent)
    ids, scores = zip(*ent._.kb_ents)
    assert len(ids) == 5 and ids[0] == "D001241" and list(scores) == sorted(scores, reverse=True)
    assert type(scores[0]) is float and -1.0001 <= min(scores) <= max(scores) <= 1.0001
    entity = trained.get_pipe("pel_linker").kb[ent.kb_id_]
    assert (entity.name, entity.types) == ("Aspirin", ("Chemical",))
    assert trained.get_pipe("pel_linker").kb.cui_to_entity["D008094"].name == "Lithium"


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_pipe_equals_call(trained, batch_size):
    texts = [unlinked(trained)[i % len(SENTENCES)] for i in range(20)]
    called = [trained(doc.copy()) for doc in texts]
    piped = list(trained.pipe([doc.copy() for doc in texts], batch_size=batch_size))
    for one, other in zip(called, piped, strict=True):
        assert links(one) == links(other)
        for a, b in zip(one.ents, other.ents):
            np.testing.assert_allclose([s for _, s in a._.kb_ents], [s for _, s in b._.kb_ents], atol=1e-5)


def test_nil_threshold(trained, docs):
    linker = trained.get_pipe("pel_linker")
    best = max(trained(doc.copy()).ents[0]._.kb_ents[0][1] for doc in docs)
    try:
        for setting, tuned, nil in [(None, 2.0, False), ("tuned", 2.0, True), (-1.0, 2.0, False), (1.0, None, True)]:
            linker.nil_threshold, linker.tuned = setting, Tuned(nil_threshold=tuned)
            ent = trained(docs[0].copy()).ents[0]
            assert (ent.kb_id_ == "NIL", ent._.is_nil) == (nil, nil)
            assert len(ent._.kb_ents) == 5
        linker.nil_threshold = best  # a score equal to the threshold links
        assert any(not ent._.is_nil for doc in docs for ent in trained(doc.copy()).ents)
    finally:
        linker.nil_threshold, linker.tuned = "tuned", Tuned()


def test_tuned_threshold_is_saved(trained, tmp_path):
    linker = trained.get_pipe("pel_linker")
    linker.tuned = Tuned(nil_threshold=0.25)
    try:
        linker.to_disk(tmp_path / "linker")
    finally:
        linker.tuned = Tuned()
    again = spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "linker")
    assert again.threshold == 0.25
    stored = srsly.read_json(tmp_path / "linker" / "cfg")
    assert stored.pop("saved")["parts"].keys() == {"vocab", "model", "kb"} and stored == {"nil_threshold": 0.25}


def test_settings_of_the_config_win_over_what_was_saved(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    again = spacy.load(
        tmp_path / "pipeline", config={"components": {"pel_linker": {"max_candidates": 2, "nil_threshold": 0.99}}}
    )
    ent = again(unlinked(again)[0]).ents[0]
    assert ent._.is_nil and len(ent._.kb_ents) == 2


def test_labels_discard_and_overwrite(trained):
    linker = trained.get_pipe("pel_linker")
    doc = unlinked(trained)[0]
    doc.ents = [
        Span(doc, e.start, e.end, label=label, kb_id=kb_id)
        for e, label, kb_id in zip(doc.ents, ("X", "Y"), ("", "kept"))
    ]
    linker.labels_discard, linker.overwrite = ["X"], False
    try:
        first, second = trained(doc.copy()).ents
        assert (first.kb_id_, first._.kb_ents, first._.is_nil) == ("NIL", [], True)
        assert (second.kb_id_, second._.is_nil) == ("kept", False)
        linker.overwrite = True
        assert trained(doc.copy()).ents[1].kb_id_ == "D009203"
    finally:
        linker.labels_discard, linker.overwrite = [], True


def test_types_are_filtered_before_ranking(trained, tmp_path, docs):
    linker = copy_of(trained, tmp_path)
    spans = [ent for doc in docs for ent in doc.ents]
    free = linker.rank(spans, 12)
    diseases = {id for id in linker.kb if linker.kb[id].types == ("Disease",)}
    linker.types = ["Disease"]
    for own, unfiltered in zip(linker.rank(spans, 5), free, strict=True):
        assert len(own) == 5
        expected = [(id, pytest.approx(score, abs=1e-5)) for id, score in unfiltered if id in diseases][:5]
        assert own == expected
    linker.types, linker.types_by_label = [], {"X": ["Chemical", "Sign"], "Y": ["Disease"]}
    spans[0].label_ = "Y"
    for span, own in zip(spans, linker.rank(spans, 12), strict=True):
        allowed = {"Disease"} if span.label_ == "Y" else {"Chemical", "Sign"}
        assert {kind for id, _ in own for kind in linker.kb[id].types} == allowed
    linker.types = ["Chemical", "Disease"]
    assert {kind for id, _ in linker.rank(spans[1:], 12)[0] for kind in linker.kb[id].types} == {"Chemical"}
    linker.types = ["Sign"]  # which nothing that is labelled Y may have
    for weights in (None, {"ngram": 0.25, "exact": 0.5}):
        linker.lexical = weights
        assert linker.rank(spans[:1], 12) == [[]] and linker.rank(spans[1:], 12)[0]
        assert linker.explain(spans[0]).kb_id == "NIL"


def test_types_are_filtered_while_training(tmp_path):
    kb = make_kb(tmp_path / "kb")
    kb.remove(["D008094"])
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb, types=["Disease"])
    train(nlp, examples, optimizer, steps=1)
    spans = [ent for eg in examples for ent in eg.reference.ents]
    ranked = linker.rank(spans, 12, search=linker.session.live.search())
    assert all({linker.kb[id].types for id, _ in own} == {("Disease",)} and len(own) == 6 for own in ranked)


def test_added_entities_are_linked_without_training(trained, tmp_path, docs):
    linker = copy_of(trained, tmp_path)
    spans = [ent for doc in docs for ent in doc.ents]
    before = dict(zip(map(str, spans), linker.rank(spans, 12), strict=True))
    weights = linker.fingerprint
    linker.remove_entities(["D001241"])
    without = dict(zip(map(str, spans), linker.rank(spans, 12), strict=True))
    assert [id for id, _ in without["aspirin"]] == [id for id, _ in before["aspirin"] if id != "D001241"]
    linker.add_entities([e for e in ENTITIES if e.id == "D001241"])
    again = dict(zip(map(str, spans), linker.rank(spans, 12), strict=True))
    assert again["aspirin"][0] == ("D001241", pytest.approx(before["aspirin"][0][1], abs=1e-3))
    linker.update_entities([replace(linker.kb["D001241"], name="Cyanosis", aliases=(), definition="", types=("Sign",))])
    assert linker.kb["D001241"].name == "Cyanosis" and linker.rank(spans, 1) != [c[:1] for c in again.values()]
    assert linker.fingerprint == weights


def test_training_on_a_kb_with_gaps(tmp_path):
    kb = make_kb(tmp_path / "kb")
    kb.remove(["D001241", "D010634"])
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb)
    losses = train(nlp, examples, optimizer, steps=200)
    linker.index()
    docs = [nlp(eg.reference.copy()) for eg in examples]
    gold = [ent.kb_id_ for eg in examples for ent in eg.reference.ents]
    found = [ent.kb_id_ for doc in docs for ent in doc.ents]
    known = [(g, f) for g, f in zip(gold, found, strict=True) if g in kb]
    assert losses[-1] < losses[0] / 4 and all(g == f for g, f in known) and len(known) == 10


def test_retired_gold_ids_are_learnt_and_scored_as_their_successors(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", ENTITIES, retired=[("OLD", "D001241")])
    sentences = [("She took aspirin .", {"aspirin": "OLD"})]
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb, sentences)
    losses = train(nlp, examples, optimizer, steps=60)
    assert losses[-1] < losses[0] / 4
    linker.index(progress=False)
    assert linker.score(examples)["nel_recall_at_1"] == 1.0
    assert links(nlp(examples[0].reference.copy())) == [("aspirin", "D001241")]


def test_source(trained):
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker", source=trained)
    assert [links(nlp(doc)) for doc in unlinked(nlp)] == GOLD


def test_from_disk_reads_any_architecture(trained, tmp_path):
    trained.get_pipe("pel_linker").to_disk(tmp_path / "linker")
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker").from_disk(tmp_path / "linker")
    assert linker.model.attrs["settings"]["mention_length"] == 32
    assert [links(nlp(doc)) for doc in unlinked(nlp)] == GOLD


def test_bytes(trained):
    data = trained.to_bytes()
    again = spacy.blank("en")
    again.add_pipe("pel_linker", config=make_config())
    again.from_bytes(data)
    assert [links(again(doc)) for doc in unlinked(again)] == GOLD


def test_a_deeper_search_decides_as_the_pipeline_does(trained, monkeypatch):
    linker, asked = trained.get_pipe("pel_linker"), []
    spans = [ent for doc in make_docs(trained) for ent in doc.ents]
    settings = linker.settings
    linker.settings = replace(settings, top_k=2, max_candidates=2)
    own = linker.find(spans, 2)
    monkeypatch.setattr("spacy_pel.search.find.encode_spans", lambda *args: asked.append(1) or encode_spans(*args))
    deep = linker.find(spans, 9)
    linker.settings = settings
    assert asked == [1], "mentions were encoded again for the deeper search"
    for few, many in zip(own, deep, strict=True):
        assert many.ids[: len(few.ids)] == few.ids and len(set(many.ids)) == len(many.ids) == len(many.scores) == 9
        np.testing.assert_array_equal(many.evidence, few.evidence)
        assert all(len(part) == 9 for part in many.parts.values())


def test_mentions_of_several_filters_are_encoded_once(trained, monkeypatch):
    linker, asked = trained.get_pipe("pel_linker"), []
    monkeypatch.setattr(
        "spacy_pel.search.find.encode_spans", lambda *args: asked.append(len(args[1])) or encode_spans(*args)
    )
    (doc, *_) = make_docs(trained)
    spans = [Span(doc, ent.start, ent.end, label=label) for ent in doc.ents for label in ("A", "B", "C")]
    expected = linker.rank(spans, 3)
    linker.types_by_label = {"A": ["Chemical"], "B": ["Disease"]}
    filtered = linker.rank(spans, 3)
    linker.types_by_label = {}
    assert asked == [len(spans)] * 2 and filtered[2::3] == expected[2::3] and filtered[0] != filtered[1]


def test_each_mention_is_searched_in_the_language_of_its_doc_or_else_of_the_linker(trained):
    linker, vocabs = trained.get_pipe("pel_linker"), [trained.vocab, spacy.blank("de").vocab, Vocab()]
    spans = [Span(Doc(vocab, words=["Naloxones"]), 0, 1, label="X") for vocab in vocabs]
    for order in permutations(range(3)):
        found = dict(zip(order, linker.find([spans[i] for i in order], 3), strict=True))
        assert [found[i].parts[EXACT].max() for i in range(3)] == [1, 0, 1]


def test_pickle(trained):
    trained.get_pipe("pel_linker").set_error_handler(ignore_error)
    linker = pickle.loads(pickle.dumps(trained.get_pipe("pel_linker")))
    trained.get_pipe("pel_linker").set_error_handler(raise_error)
    assert linker.get_error_handler() is ignore_error
    linker.set_error_handler(lambda *_: None)
    assert pickle.loads(pickle.dumps(linker)).get_error_handler() is raise_error, "that one cannot be pickled"
    for doc, gold in zip(unlinked(trained), GOLD):
        assert links(linker(doc)) == gold


def test_pickled_and_copied_before_it_has_an_encoder():
    nlp = spacy.blank("en")
    score = {"@architectures": "spacy_pel.MultiVectorScore.v1", "m": 3}
    model = {"@architectures": "spacy_pel.BiEncoder.v1", "mention_length": 40, "pooling": "cls", "score": score}
    linker = nlp.add_pipe("pel_linker", config={"model": model, "top_k": 9})
    for again in (pickle.loads(pickle.dumps(nlp)), deepcopy(nlp)):
        own = again.get_pipe("pel_linker")
        assert own.model.attrs["settings"] == linker.model.attrs["settings"] and own.top_k == 9 and own.kb is None


def test_docbin_round_trip(trained, docs):
    data = DocBin(docs=[trained(doc) for doc in docs], store_user_data=True).to_bytes()
    for doc, again in zip(docs, DocBin().from_bytes(data).get_docs(trained.vocab)):
        assert links(again) == links(doc)
        for ent, other in zip(doc.ents, again.ents):
            assert [tuple(pair) for pair in other._.kb_ents] == ent._.kb_ents
            assert other._.is_nil == ent._.is_nil


def test_score_counts_gold_mentions(trained):
    scores = trained.evaluate(make_examples(trained))
    assert scores["nel_recall_at_1"] == scores["nel_recall_at_64"] == 1.0


def test_spacy_find_threshold(trained, tmp_path):
    """In the pipeline as saved, whose candidates it links again for every threshold that it tries."""
    docs = make_docs(trained)
    nil = [Span(docs[0], s.start, s.end, label=s.label, kb_id="NIL") for s in docs[0].spans[GOLD_GROUP]]
    docs[0].spans[GOLD_GROUP] = nil
    write_docs(tmp_path / "dev.spacy", docs)
    trained.to_disk(tmp_path / "pipeline")
    best, f1, tried = find_threshold(
        tmp_path / "pipeline", tmp_path / "dev.spacy", "pel_linker", "nil_threshold", "nel_nil_f1", n_trials=3
    )
    assert list(tried) == [0.0, 0.5, 1.0] and tried[best] == f1 == max(tried.values())
    assert tried[1.0] == pytest.approx(2 * 2 / (2 + 12))  # all twelve mentions called NIL, two of which are


def test_two_runs_with_one_seed_are_equal(tmp_path, folder):
    encoder = write_encoder(tmp_path / "encoder")
    runs = []
    for i in range(2):
        nlp, linker, examples, optimizer = make_pipeline(encoder, make_kb(tmp_path / f"kb{i}"), dropout=0.2)
        train(nlp, examples, optimizer, steps=5)
        linker.index(progress=False)
        runs.append((linker.fingerprint, linker.rank([ent for doc in make_docs(nlp) for ent in doc.ents], 12)))
    assert runs[0] == runs[1]


# --- what can be wrong ---


def test_a_pipeline_in_which_nothing_looks_for_entities_is_told_so(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker")
    with pytest.warns(UserWarning, match="pel_linker links doc.ents, and no component has looked for entities"):
        nlp("She took aspirin.")
    nlp.add_pipe("entity_ruler", before="pel_linker").add_patterns([{"label": "X", "pattern": "lithium"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("She took aspirin.")  # it looked and found none
        nlp("")


def test_a_kb_that_changes_during_a_search_gives_what_it_has_then(trained, tmp_path, monkeypatch):
    """The entity that is removed leaves nothing behind in what is said of the others."""
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    linker, (span, *_) = nlp.get_pipe("pel_linker"), make_docs(nlp)[0].ents
    best = linker.find([span], 5)[0].ids[0]
    whole, removed = find.evidence, []

    def evidence(scored, texts):
        if not removed:
            removed.append(best)
            spacy.load(tmp_path / "pipeline").get_pipe("pel_linker").remove_entities([best])
        return whole(scored, texts)

    monkeypatch.setattr(find, "evidence", evidence)
    (meanwhile,), (after,) = linker.find([span], 5), linker.find([span], 5)
    assert removed == [best] and best not in meanwhile.ids == after.ids
    np.testing.assert_array_equal(meanwhile.evidence, after.evidence)


def test_docs_without_entities_need_no_kb(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker")
    assert nlp("No entity here.").ents == () and nlp("").ents == ()


def test_linking_without_a_kb_says_what_to_run(folder, trained, docs):
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker").from_disk(save(trained, folder / "nokb", exclude=["kb"]))
    with pytest.raises(PelError, match="pel_linker has no KB: run `python -m spacy pel index PIPELINE KB OUT`"):
        nlp(docs[0])


def test_linking_before_indexing_says_what_to_run(trained, tmp_path, docs):
    linker = spacy.blank("en").add_pipe("pel_linker").from_disk(save(trained, tmp_path / "linker"))
    linker.set_kb(make_kb(tmp_path / "kb"))
    with pytest.raises(PelError, match="the KB has no vectors; run `python -m spacy pel index"):
        linker(docs[0])


def test_a_kb_of_another_encoder_is_refused(trained, tmp_path, docs):
    other = write_encoder(tmp_path / "encoder", intermediate_size=48)
    _, linker, _, _ = make_pipeline(other, make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    mine = spacy.blank("en").add_pipe("pel_linker").from_disk(save(trained, tmp_path / "linker"))
    mine.set_kb(tmp_path / "kb")
    with pytest.raises(PelError, match="was indexed with another encoder"):
        mine(docs[0])
    linker.kb.copy_to(tmp_path / "linker" / "kb")
    with pytest.raises(PelError, match="was indexed with another encoder"):
        spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "linker")


def test_a_linker_whose_folder_has_a_kb_of_another_encoder_stays_as_it_was(trained, tmp_path, docs):
    other = write_encoder(tmp_path / "encoder", intermediate_size=48)
    _, linker, _, _ = make_pipeline(other, make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    linker.kb.copy_to(save(trained, tmp_path / "broken") / "kb")
    linker.tuned = Tuned(nil_threshold=0.25)
    ids = [ent.kb_id_ for ent in linker(docs[0].copy()).ents]
    session = linker.begin_training()
    with pytest.raises(PelError, match="was indexed with another encoder"):
        linker.from_disk(tmp_path / "broken")
    assert linker.tuned == Tuned(nil_threshold=0.25) and linker.session is session
    assert [ent.kb_id_ for ent in linker(docs[0].copy()).ents] == ids


def test_save_kb_false_writes_where_it_is(trained, tmp_path, docs):
    linker = trained.get_pipe("pel_linker")
    linker.save_kb = False
    try:
        trained.to_disk(tmp_path / "pipeline")
    finally:
        linker.save_kb = True
    assert not (tmp_path / "pipeline" / "pel_linker" / "kb").exists()
    again = spacy.load(tmp_path / "pipeline")
    assert again.get_pipe("pel_linker").kb.path == linker.kb.path
    srsly.write_json(tmp_path / "pipeline" / "pel_linker" / "kb.json", {"path": str(tmp_path / "gone")})
    lost = spacy.load(tmp_path / "pipeline")
    with pytest.raises(PelError, match=r"is not at .*gone any more: run `python -m spacy pel index"):
        lost(docs[0])


def test_after_more_training_the_vectors_are_not_saved_as_if_they_fitted(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    train(nlp, examples, optimizer, steps=2)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert not again.get_pipe("pel_linker").kb.indexes and len(again.get_pipe("pel_linker").kb) == len(ENTITIES)
    with pytest.raises(PelError, match="has no vectors"):
        again(unlinked(again)[0])


def test_saving_in_place_after_more_training_leaves_what_can_be_loaded_and_indexed(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    optimizer = nlp.resume_training()
    nlp.update(make_examples(nlp), sgd=optimizer)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    linker = again.get_pipe("pel_linker")
    assert not linker.kb.indexes and len(linker.kb) == len(ENTITIES)
    assert [path.name for path in linker.kb.path.iterdir()] == ["entities.sqlite"]
    linker.index(progress=False)
    assert again(unlinked(again)[0]).ents[0].kb_id_ == "D001241"


def test_more_training_drops_the_tuned_threshold(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    nlp.get_pipe("pel_linker").tuned = Tuned(nil_threshold=0.5)
    nlp.update(make_examples(nlp), sgd=nlp.resume_training())
    assert nlp.get_pipe("pel_linker").threshold is None


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_precision_is_the_reader_s_to_choose(trained, tmp_path, precision):
    trained.to_disk(tmp_path / "pipeline")
    settings = {"components.pel_linker.model.precision": precision}
    nlp = spacy.load(tmp_path / "pipeline", config=settings)
    assert nlp.get_pipe("pel_linker").model.attrs["settings"]["precision"] == precision
    assert [links(nlp(doc)) for doc in unlinked(nlp)] == GOLD


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_copy_computes_in_the_same_precision(trained, tmp_path, precision):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline", config={"components.pel_linker.model.precision": precision})
    docs = make_docs(nlp)
    docs[0].spans[GOLD_GROUP] = [Span(docs[0], s.start, s.end, kb_id="NIL") for s in docs[0].spans[GOLD_GROUP]]
    nlp.get_pipe("pel_linker").tune_nil(docs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for again in (pickle.loads(pickle.dumps(nlp)), deepcopy(nlp)):
            linker = again.get_pipe("pel_linker")
            assert linker.model.attrs["settings"]["precision"] == precision
            assert linker.threshold == nlp.get_pipe("pel_linker").threshold is not None


def test_a_threshold_that_was_tuned_in_another_precision_is_refused(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    docs = make_docs(trained)
    docs[0].spans[GOLD_GROUP] = [Span(docs[0], s.start, s.end, kb_id="NIL") for s in docs[0].spans[GOLD_GROUP]]
    for tuned, other, first in (("bf16", "fp32", None), ("bf16", "int8", "float"), ("int8", "auto", "int8")):
        nlp = spacy.load(tmp_path / "pipeline", config={"components.pel_linker.model.precision": tuned})
        nlp.get_pipe("pel_linker").tune_nil(docs)
        nlp.to_disk(tmp_path / "tuned")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = spacy.load(tmp_path / "tuned", config={"components.pel_linker.model.precision": other})
        texts = [str(warning.message) for warning in caught if "precision" in str(warning.message)]
        assert len(texts) == (first is not None)
        if first is not None:
            assert f"they were tuned for scores in {first}, and it now computes in" in texts[0]
        assert (again.get_pipe("pel_linker").threshold is None) == (first is not None)


def test_it_warns_of_settings_that_are_not_saved(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    linker = nlp.get_pipe("pel_linker")
    linker.labels_discard, linker.max_candidates = ["X"], 7
    with pytest.warns(
        UserWarning, match=r"pel_linker: what was set on the component is not saved \(max_candidates, labels_discard\)"
    ):
        nlp.to_disk(tmp_path / "set")
    again = spacy.load(tmp_path / "set").get_pipe("pel_linker")
    assert (again.max_candidates, again.labels_discard) != (7, ["X"])
    nlp.get_pipe_config("pel_linker").update(max_candidates=7, labels_discard=["X"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.to_disk(tmp_path / "said")
        linker.to_disk(tmp_path / "alone")
    again = spacy.load(tmp_path / "said").get_pipe("pel_linker")
    assert (again.max_candidates, again.labels_discard) == (7, ["X"])


def test_it_does_not_warn_of_variables(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    path = tmp_path / "pipeline" / "config.cfg"
    config = Config().from_disk(path, interpolate=False)
    config["system"]["k"] = 32
    config["components"]["pel_linker"]["top_k"] = "${system.k}"
    config.to_disk(path)
    nlp = spacy.load(tmp_path / "pipeline")
    assert nlp.get_pipe("pel_linker").top_k == 32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.to_disk(tmp_path / "again")


def test_a_config_cannot_change_what_was_trained(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    with pytest.warns(UserWarning, match=r"asks for another encoder .*: mentions = 'document' \(not 'windows'\)"):
        nlp = spacy.load(tmp_path / "pipeline", config={"components.pel_linker.model.mentions": "document"})
    assert [links(nlp(doc)) for doc in unlinked(nlp)] == GOLD
    other = {"@architectures": "spacy_pel.DocumentEncoder.v1", "window": 77}
    with pytest.warns(UserWarning, match=r"mention_length or window = 77 \(not \d+\), mentions = 'document'"):
        spacy.load(tmp_path / "pipeline", config={"components.pel_linker.model": other})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spacy.load(tmp_path / "pipeline")
        spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "pipeline" / "pel_linker")


def test_training_with_a_loss_that_the_loaded_encoder_is_not_for(tmp_path):
    _, dot, _, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        model={"similarity": "dot"},
        loss={"@misc": "spacy_pel.CrossEntropyLoss.v1"},
    )
    dot.to_disk(tmp_path / "linker")
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker").from_disk(tmp_path / "linker")
    with pytest.raises(PelError, match="similarity = 'dot' does not go with the loss"):
        nlp.update(make_examples(nlp))


def test_bytes_without_the_kb_leave_the_one_that_is_set(trained):
    linker = spacy.blank("en").add_pipe("pel_linker")
    linker.from_bytes(trained.get_pipe("pel_linker").to_bytes())
    linker.from_bytes(linker.to_bytes(exclude=["kb"]), exclude=["kb"])
    assert [links(linker(doc)) for doc in unlinked(trained)] == GOLD


def test_threads_link_as_one(tmp_path):
    """Dropout is saved with the encoder; a prediction never has it, whatever other threads do."""
    encoder = write_encoder(tmp_path / "encoder")
    nlp, linker, _, _ = make_pipeline(encoder, make_kb(tmp_path / "kb"), dropout=0.5)
    linker.index(progress=False)
    spans = [ent for doc in make_docs(nlp) for ent in doc.ents]
    expected = linker.rank(spans, 5)
    with ThreadPoolExecutor(8) as threads:
        assert all(found == expected for found in threads.map(lambda _: linker.rank(spans, 5), range(40)))


def test_as_tuples(trained):
    pairs = [(doc, i) for i, doc in enumerate(unlinked(trained))]
    linked = list(trained.pipe(pairs, as_tuples=True, batch_size=4))
    assert [(links(doc), i) for doc, i in linked] == [(gold, i) for i, gold in enumerate(GOLD)]


def test_without_gold_ents_predicted_entities_are_trained_on(tmp_path):
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, _, examples, _ = make_pipeline(encoder, kb, use_gold_ents=False)
    assert nlp.update(examples) == {"pel_linker": 0.0}
    for example in examples:
        example.predicted.ents = [Span(example.predicted, e.start, e.end, label="X") for e in example.reference.ents]
    assert nlp.update(examples)["pel_linker"] > 0


def test_saving_into_the_folder_the_kb_is_mapped_from(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    nlp.to_disk(tmp_path / "pipeline")
    assert [links(nlp(doc)) for doc in unlinked(nlp)] == GOLD
    again = spacy.load(tmp_path / "pipeline")
    assert [links(again(doc)) for doc in unlinked(again)] == GOLD


@pytest.mark.parametrize(
    "broken", ["model/mention/model.safetensors", "model/tokenizer/tokenizer.json", "model/bi_encoder.json"]
)
def test_a_broken_model_folder_is_named(trained, tmp_path, broken):
    save(trained, tmp_path / "linker")
    path = tmp_path / "linker" / broken
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(PelError, match=f"{broken}: has .* bytes instead of .*; copy the folder again"):
        spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "linker")
    srsly.write_json(tmp_path / "linker" / "cfg", {})  # as of an earlier version, without hashes
    with pytest.raises(PelError, match="no bi-encoder can be read from this folder"):
        spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "linker")


def test_initialize_names_what_is_missing(tmp_path):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker", config=make_config())
    examples = make_examples(nlp)
    with pytest.raises(PelError, match=r"\[initialize.components.pel_linker\] has no encoder_loader"):
        linker.initialize(lambda: examples, nlp=nlp)
    _, linker, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.kb = None
    with pytest.raises(PelError, match=r"\[initialize.components.pel_linker\] has no kb_loader"):
        linker.initialize(lambda: examples, nlp=nlp)


def test_an_initialisation_that_fails_changes_nothing(trained, tmp_path, docs):
    linker = copy_of(trained, tmp_path)
    linker.tuned = Tuned(nil_threshold=0.25)
    before = [ent.kb_id_ for ent in linker(docs[0].copy()).ents]
    other = HFEncoder(str(write_encoder(tmp_path / "encoder", intermediate_size=48)))
    wrong = make_examples(trained, [("She took aspirin", {"aspirin": "NOWHERE"})])
    empty = make_kb(tmp_path / "other", [Entity("X1", "X")])
    for examples, kb in ((wrong, linker.kb), (make_examples(trained), empty)):
        with pytest.raises(PelError):
            linker.initialize(lambda own=examples: own, encoder_loader=other, kb_loader=lambda own=kb: own)
    assert linker.tuned == Tuned(nil_threshold=0.25)
    assert [ent.kb_id_ for ent in linker(docs[0].copy()).ents] == before


def test_a_ranker_whose_initialisation_fails_keeps_its_weights(trained, tmp_path):
    copy_of(trained, tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker").from_disk(tmp_path / "copy")
    cross = {"@architectures": "spacy_pel.CrossEncoder.v1", "mention_length": 24, "entity_length": 24}
    ranker = nlp.add_pipe("pel_ranker", config={"top_n": 4, "model": cross})
    ranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    ranker.tuned = RankTuned(nil_threshold=0.25)
    before = ranker.to_bytes()
    other = HFEncoder(str(write_encoder(tmp_path / "encoder", intermediate_size=48)))
    wrong = make_examples(nlp, [("She took aspirin", {"aspirin": "NOWHERE"})])
    (tmp_path / "broken.jsonl").mkdir()
    for given in ({}, {"candidates": tmp_path / "broken.jsonl"}):
        with pytest.raises(PelError):
            own = make_examples(nlp) if given else wrong
            ranker.initialize(lambda own=own: own, nlp=nlp, encoder_loader=other, **given)
        assert ranker.to_bytes() == before


def test_a_type_whose_last_entity_goes_is_linked_to_nil(trained, tmp_path, docs):
    linker = copy_of(trained, tmp_path)
    linker.types = ["Sign"]
    (doc,) = [doc for doc in docs if "cyanosis" in doc.text]
    assert {ent.kb_id_ for ent in linker(doc.copy()).ents} == {"D003490"}
    KnowledgeBase(linker.kb.path).remove(["D003490"])
    assert {ent.kb_id_ for ent in linker(doc.copy()).ents} == {"NIL"}
    assert {ent.kb_id_ for ent in pickle.loads(pickle.dumps(linker))(doc.copy()).ents} == {"NIL"}
    linker.types = ["Sing"]
    with pytest.raises(PelError, match='no entity has the type "Sing"'):
        linker(doc)


def test_gold_ids_of_another_scheme_are_found_at_initialisation(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("C0000001", "something")])
    with pytest.raises(PelError, match=r"None of the 12 gold ids .*'D001241'.* is in the KB .*'C0000001'"):
        make_pipeline(write_encoder(tmp_path / "encoder"), kb)


def test_initialize_makes_the_first_examples_only(tmp_path, monkeypatch):
    nlp, linker, examples, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    made = []
    for module in ("learning", "linker"):
        monkeypatch.setattr(f"spacy_pel.pipeline.{module}.EXAMPLES_CHECKED", 3)
    linker.initialize(lambda: (made.append(eg) or eg for eg in examples), nlp=nlp)
    assert len(made) == 2 * 3
    for wrong in (None, examples, list, lambda: ["no Example"]):
        with pytest.raises(TypeError, match=r"PelLinker\.initialize"):
            linker.initialize(wrong, nlp=nlp)


@pytest.mark.parametrize("id_", ["", "NIL"])
def test_a_corpus_without_ids_is_found_at_initialisation(tmp_path, id_):
    nlp, linker, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    examples = make_examples(nlp, [(text, dict.fromkeys(found, id_)) for text, found in SENTENCES])
    with pytest.raises(PelError, match=r"None of the 12 mentions .*'aspirin'.* has an id that pel_linker could learn"):
        linker.initialize(lambda: examples, nlp=nlp)
    nlp.config["training"]["max_epochs"] = -1  # the first of a stream: ids may come
    with pytest.warns(UserWarning, match=r"None of the 12 mentions .* has an id that pel_linker could learn"):
        linker.initialize(lambda: examples, nlp=nlp)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize()  # with spaCy's own Example, to load things


def test_gold_in_the_group_that_is_linked_is_told_where_it_is_read(tmp_path):
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, examples, _ = make_pipeline(encoder, kb, spans_key="sc")
    for eg in examples:
        eg.reference.spans["sc"] = list(eg.reference.spans.pop(GOLD_GROUP))
        eg.reference.set_ents([])
    where = r'gold is read from doc\.ents or doc\.spans\["gold_mentions"\].* are in doc\.spans\["sc"\]; copy'
    with pytest.raises(PelError, match=where):
        linker.initialize(lambda: examples, nlp=nlp)
    nlp.config["training"]["max_epochs"] = -1
    with pytest.warns(UserWarning, match=where):
        linker.initialize(lambda: examples, nlp=nlp)
    for eg in examples:
        eg.reference.spans[GOLD_GROUP] = list(eg.reference.spans["sc"])
    linker.initialize(lambda: examples, nlp=nlp)


def test_mentions_whose_gold_is_not_in_the_kb_give_no_loss(tmp_path):
    kb = make_kb(tmp_path / "kb", [e for e in ENTITIES if e.id not in ("D009270", "D003000")])
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb)
    assert nlp.update(examples, sgd=optimizer, losses={})["pel_linker"] > 0
    linker.tuned = Tuned(nil_threshold=0.5)
    before, steps = linker.fingerprint, dict(optimizer.nr_update)
    for example in (examples[-1], Example(nlp.make_doc("Nothing."), nlp.make_doc("Nothing."))):
        assert nlp.update([example], sgd=optimizer, losses={}) == {"pel_linker": 0.0}
    assert steps and optimizer.nr_update == steps
    assert linker.fingerprint == before and linker.tuned == Tuned(nil_threshold=0.5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"layout": "both"}, "layout is 'both'"),
        ({"model": {"similarity": "dot"}}, r"similarity = 'dot' does not go with the loss"),
        ({"model": {"precision": "fp8"}}, "precision is 'fp8'"),
        ({"top_k": 0}, "top_k = 0; it must be at least 1"),
    ],
)
def test_a_wrong_setting_is_named(config, message):
    with pytest.raises(PelError, match=message):
        spacy.blank("en").add_pipe("pel_linker", config=make_config(**config))


def test_a_model_of_another_kind_is_refused():
    model = {"@architectures": "spacy_pel.CrossEncoder.v1"}
    with pytest.raises(PelError, match=r'make it a section with "@architectures": "spacy_pel\.BiEncoder\.v1"'):
        spacy.blank("en").add_pipe("pel_linker", config={"model": model})


def test_rows_longer_than_the_encoder_are_refused(tmp_path):
    with pytest.raises(PelError, match="longer than the 64 positions"):
        make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), model={"mention_length": 128})


def test_odd_mentions_link_or_are_nil(trained):
    words = ["患者", "は", "\x00\x07", "   ", "aspirin", "\n", "ليثيوم", "💔"]
    doc = Doc(trained.vocab, words=words, sent_starts=[True] + [False] * 3 + [True] + [False] * 3)
    doc.ents = [Span(doc, i, j, label="X") for i, j in ((0, 2), (2, 3), (3, 6), (6, 8))]
    ents = trained(doc).ents
    assert [bool(ent._.kb_ents) for ent in ents] == [True, False, True, True]
    assert ents[1].kb_id_ == "NIL" and ents[1]._.is_nil
    blank = Doc(trained.vocab, words=["a", " ", "b"])
    [(candidates)] = trained.get_pipe("pel_linker").rank([blank[1:2]], 5)
    assert candidates == []


def test_a_doc_of_100_000_tokens(trained):
    """The first, the middle and the last mention are linked as in a short one."""

    def linked(n_sentences):
        doc = Doc(trained.vocab, words=["aspirin", "was", "given", "."] * n_sentences)
        doc.ents = [Span(doc, i, i + 1, label="X") for i in (0, 2 * n_sentences, 4 * n_sentences - 4)]
        return [(ent.kb_id_, ent._.kb_ents) for ent in trained(doc).ents]

    assert linked(25_000) == linked(50)


def test_scispacy_s_extension_stays(trained, docs):
    Span.set_extension("kb_ents", default=[], force=True)  # as scispaCy's linker does
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker", source=trained)
    assert nlp(docs[0]).ents[0]._.kb_ents[0][0] == "D001241"


def save(nlp, path, exclude=()):
    nlp.get_pipe("pel_linker").to_disk(path, exclude=exclude)
    return path


def copy_of(trained, folder):
    """A linker of its own, with its own KB: `trained` serves all tests."""
    return spacy.blank("en").add_pipe("pel_linker").from_disk(save(trained, folder / "copy"))
