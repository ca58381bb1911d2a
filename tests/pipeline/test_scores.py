"""A linker with each score function, from training to a changed KB, on tiny data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import spacy
from tiny import ENTITIES, SENTENCES, links, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel import evaluate
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.several import counts_of, flat
from spacy_pel.models.bi_encoder import score_of
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.encoding import encode_entities, encode_spans
from spacy_pel.models.pretrained import encoder_of
from spacy_pel.models.scoring.bags import given
from spacy_pel.search import scored_index
from spacy_pel.search.parts import NAMES, SIMILARITY
from spacy_pel.search.scored_index import ScoredIndex
from spacy_pel.tuning.tuned import Tuned

SCORES = {
    "multi": {"@architectures": "spacy_pel.MultiVectorScore.v1", "m": 3},
    "sum": {"@architectures": "spacy_pel.SumOfMax.v1"},
    "poly": {"@architectures": "spacy_pel.PolyEncoder.v1", "m": 4},
    "general": {"@architectures": "spacy_pel.GeneralPoly.v1", "m": 4, "entity_vectors": 3},
}
MODEL = {"similarity": "dot", "pooling": "cls"}
DOT = {"loss": {"@misc": "spacy_pel.CrossEntropyLoss.v1"}, "adversarial": None, "lexical": None}
FP32 = {"@architectures": "spacy_pel.BiEncoder.v1", "precision": "fp32"}
NEW = Entity("D999999", "Propranolol", ("Inderal",), ("Chemical",), "A beta blocker.")


def build(path, score, **overrides):
    model = MODEL | {"score": SCORES.get(score)} | overrides.pop("model", {})
    return make_pipeline(write_encoder(path / "encoder"), make_kb(path / "kb"), model=model, **{**DOT, **overrides})


@pytest.mark.parametrize("score", SCORES)
def test_a_ranker_is_trained_behind_it(score, tmp_path):
    nlp, linker, examples, optimizer = build(tmp_path, score)
    linker.index(progress=False)
    model = {"@architectures": "spacy_pel.CrossEncoder.v1", "mention_length": 24, "entity_length": 24}
    ranker = nlp.add_pipe("pel_ranker", config={"top_n": 4, "model": model, "adversarial": None})
    ranker.initialize(lambda: examples, nlp=nlp, candidates=tmp_path / "kept.jsonl")
    losses = [ranker.update(examples, sgd=optimizer)["pel_ranker"] for _ in range(8)]
    assert losses[-1] < losses[0] and (tmp_path / "kept.jsonl").exists()


@pytest.mark.parametrize("score", ["poly", "general"])
def test_a_linker_that_goes_on_from_a_saved_one_has_its_codes(score, tmp_path):
    nlp, linker, *_ = build(tmp_path, score)
    nlp.to_disk(tmp_path / "saved")
    loader = HFEncoder(str(tmp_path / "saved" / "pel_linker"), dropout=0.0)
    _, again, examples, _ = build(tmp_path / "again", score)
    assert again.mention_fingerprint == linker.mention_fingerprint  # of one seed
    nudge_codes(again)
    assert again.mention_fingerprint != linker.mention_fingerprint
    again.initialize(lambda: examples, encoder_loader=loader)
    assert again.mention_fingerprint == linker.mention_fingerprint
    other = build(tmp_path / "other", score, model={"score": SCORES[score] | {"m": 5}})[1]
    with pytest.warns(UserWarning, match=r"saved/pel_linker has 4 codes, and the score asks for 5: new ones are"):
        other.initialize(lambda: examples, encoder_loader=loader)


def test_a_score_without_codes_says_that_it_drops_those_of_a_saved_linker(tmp_path):
    build(tmp_path, "poly")[0].to_disk(tmp_path / "saved")
    _, linker, examples, _ = build(tmp_path / "other", "multi")
    loader = HFEncoder(str(tmp_path / "saved" / "pel_linker"), dropout=0.0)
    with pytest.warns(UserWarning, match="saved/pel_linker has 4 codes, and the score asks for none: they are dropped"):
        linker.initialize(lambda: examples, encoder_loader=loader)


def nudge_codes(linker):
    tower_module(linker.model.get_ref("mention_tower")).pooling.codes.data += 0.1
    linker.set_model(linker.model)


@pytest.fixture(params=SCORES)
def indexed(request, tmp_path):
    """An untrained pipeline whose KB is indexed."""
    nlp, linker, _, _ = build(tmp_path, request.param)
    linker.index(progress=False)
    return nlp, linker


def by_hand(linker, spans, entities):
    """All pairs of `spans` and `entities`, scored without any index."""
    vectors, places = encode_spans(linker.model, spans)
    pairs = score_of(linker.model).all_pairs(given(vectors), given(encode_entities(linker.model, entities)))
    return pairs.detach().numpy()[places]


def check_search(linker, docs, entities, k=5):
    """What is found is the best by brute force, with its score."""
    spans = [ent for doc in docs for ent in doc.ents]
    scores = by_hand(linker, spans, entities)
    ids = [entity.id for entity in entities]
    for own, found in zip(scores, linker.rank(spans, k), strict=True):
        said = [score for _, score in found]
        np.testing.assert_allclose(said, np.sort(own)[::-1][:k], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(said, [own[ids.index(id_)] for id_, _ in found], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("score", SCORES)
def test_it_overfits_saves_loads_and_says_the_same(score, tmp_path):
    nlp, linker, examples, optimizer = build(tmp_path, score)
    losses = train(nlp, examples, optimizer, 60)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    linker.index(progress=False)
    assert nlp.evaluate(examples)["nel_recall_at_1"] > 0.8
    docs = make_docs(nlp)
    gold = make_docs(nlp)
    here = [links(doc) for doc in map(linker, docs)]
    assert [links(doc) for doc in linker.pipe(make_docs(nlp), batch_size=4)] == here
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    there = again.get_pipe("pel_linker")
    assert there.fingerprint == linker.fingerprint
    assert [links(doc) for doc in map(there, make_docs(again))] == here
    metrics = evaluate(again, gold)
    assert metrics["recall_at_1"] > 0.8 and metrics["recall_at_64"] == 1
    span = docs[0].ents[0]
    explained = there.explain(make_docs(again)[0].ents[0])
    assert explained.candidates[0].id == explained.kb_id == span.kb_id_
    copied = spacy.blank("en")
    copied.add_pipe("pel_linker", config={"model": FP32, "lexical": None}).from_bytes(there.to_bytes())
    assert [links(doc) for doc in map(copied.get_pipe("pel_linker"), make_docs(copied))] == here


def test_the_search_is_that_of_brute_force(indexed):
    nlp, linker = indexed
    check_search(linker, make_docs(nlp), ENTITIES)


def test_a_deep_search_gives_every_entity_once(indexed):
    nlp, linker = indexed
    (found,) = linker.rank([make_docs(nlp)[0].ents[0]], 64)
    assert sorted(id_ for id_, _ in found) == sorted(entity.id for entity in ENTITIES)


def test_entities_come_and_go(indexed):
    nlp, linker = indexed
    docs = make_docs(nlp)
    linker.add_entities([NEW])
    check_search(linker, docs, [*ENTITIES, NEW])
    changed = Entity("D001241", "Aspirin tablets", (), ("Chemical",), "Pills of acetylsalicylic acid, to swallow.")
    linker.update_entities([changed])
    check_search(linker, docs, [*ENTITIES[1:], NEW, changed])
    linker.remove_entities(["D008094"])
    now = [*ENTITIES[2:], NEW, changed]
    check_search(linker, docs, now)
    linker.kb.compact()
    linker.set_kb(linker.kb.path)
    check_search(linker, docs, now)
    assert linker.kb.entity_index().n_vectors == counts_of(encode_entities(linker.model, now)).sum()


def test_only_allowed_entities_are_found(indexed):
    nlp, linker = indexed
    linker.types = ["Disease"]
    diseases = [entity for entity in ENTITIES if "Disease" in entity.types]
    check_search(linker, make_docs(nlp), diseases, k=3)


@pytest.mark.parametrize("score", ["sum", "poly", "general"])
def test_of_many_entities_the_candidates_of_single_vectors_are_scored(score, tmp_path, monkeypatch):
    nlp, linker, _, _ = build(tmp_path, score)
    linker.index(progress=False)
    docs = make_docs(nlp)
    spans = [ent for doc in docs for ent in doc.ents]
    exact = linker.rank(spans, 3)
    linker.exact_up_to = 4
    monkeypatch.setattr(ScoredIndex, "_among_all", lambda *_: pytest.fail("all are scored"))
    assert linker.rank(spans, 3) == exact  # so few are all candidates
    monkeypatch.setattr(scored_index, "FOUND_AT_ONCE", 1)
    assert linker.rank(spans, 3) == exact, "one query at once"
    monkeypatch.setattr(scored_index, "CANDIDATES", 1)
    linker.max_candidates = 1
    linker.top_k = 1
    scores = by_hand(linker, spans, ENTITIES)
    ids = [entity.id for entity in ENTITIES]
    some = linker.rank(spans, 1)
    assert all(len(found) == 1 for found in some)
    for own, ((id_, value),) in zip(scores, some, strict=True):
        assert value == pytest.approx(own[ids.index(id_)], rel=1e-4, abs=1e-4)


def test_candidates_of_a_mention_do_not_depend_on_the_others_of_its_batch(tmp_path, monkeypatch):
    nlp, linker, _, _ = build(tmp_path, "sum")
    rng = np.random.default_rng(0)
    words = sorted({word for entity in ENTITIES for word in entity.name.lower().split()})
    names = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(200)]
    linker.set_kb(make_kb(tmp_path / "many", [Entity(f"E{i}", name) for i, name in enumerate(names)]))
    linker.index(progress=False)
    linker.exact_up_to = 4
    monkeypatch.setattr(scored_index, "CANDIDATES", 4)
    texts = ["aspirin", "aspirin is common in depression ? " * 6, "AF and depression"]
    spans = [nlp.make_doc(text)[:1] for text in texts]
    assert len({*counts_of(encode_spans(linker.model, spans)[0])}) == 3
    for together, span in zip(linker.rank(spans, 5), spans, strict=True):
        (alone,) = linker.rank([span], 5)
        assert [id_ for id_, _ in together] == [id_ for id_, _ in alone]


def test_large_and_small_blocks_find_the_same(tmp_path, monkeypatch):
    nlp, linker, _, _ = build(tmp_path, "sum")
    linker.index(progress=False)
    spans = [ent for doc in make_docs(nlp) for ent in doc.ents]
    before = linker.rank(spans, 5)
    monkeypatch.setattr(scored_index, "VECTORS_AT_ONCE", 20)
    monkeypatch.setattr(scored_index, "PRODUCTS_AT_ONCE", 500)
    for one, other in zip(before, linker.rank(spans, 5), strict=True):
        assert [id_ for id_, _ in one] == [id_ for id_, _ in other]
        np.testing.assert_allclose([s for _, s in one], [s for _, s in other], rtol=1e-5)


def test_the_length_of_a_context_does_not_decide_on_nil(tmp_path):
    """Of sum-of-max: what a mention scores best hardly depends on how many words stand around it."""
    _, linker, _, _ = build(tmp_path, "sum", model={"mention_length": 64})
    linker.index(progress=False)
    texts = ("aspirin", "she took aspirin", "she took aspirin " + "after the heart attack " * 8)
    docs = list(map(spacy.blank("en").make_doc, texts))
    spans = [
        doc.char_span(text.index("aspirin"), text.index("aspirin") + 7, label="X") for doc, text in zip(docs, texts)
    ]
    best = [found.top_score for found in linker.find(spans, 1)]
    counts = counts_of(encode_spans(linker.model, spans)[0])
    assert counts.max() > 3 * counts.min() and max(best) < 2 * min(best)


@pytest.mark.parametrize("score", SCORES)
def test_names_count_beside_every_score(score, tmp_path):
    nlp, linker, _, _ = build(tmp_path, score, lexical="tuned")
    linker.index(progress=False)
    (doc,) = make_docs(nlp, [("Give Inderal now .", {"Inderal": NEW.id})])
    linker.add_entities([NEW])
    (found,) = linker.rank(list(doc.ents), 3)
    assert found[0][0] == NEW.id
    explained = linker.explain(doc.ents[0])
    similarity = by_hand(linker, list(doc.ents), [NEW])[0, 0]
    assert explained.candidates[0].parts.similarity == pytest.approx(similarity, rel=1e-4, abs=1e-4)
    linker.tune_names()  # on names of the KB, some held out
    assert linker.tuned.name_weights is not None


@pytest.mark.parametrize("score", ["dual", "sum"])
def test_a_linker_read_into_a_new_component_weighs_names_as_it_did(score, tmp_path):
    nlp, linker, _, _ = build(tmp_path, score, lexical="tuned")
    linker.index(progress=False)
    linker.to_disk(tmp_path / "linker")
    again = spacy.blank("en").add_pipe("pel_linker", config={"model": FP32}).from_disk(tmp_path / "linker")
    assert again.name_weights == linker.name_weights
    span = make_docs(nlp)[0].ents[0]
    assert again.rank([span], 3) == linker.rank([span], 3)
    again.nil_threshold = 20.0  # no cosine
    assert pickle.loads(pickle.dumps(again)).threshold == 20.0
    cosine, *_ = make_pipeline(tmp_path / "encoder", make_kb(tmp_path / "other"))
    other = cosine.get_pipe("pel_linker")
    other.index(progress=False)
    other.tuned = Tuned(nil_threshold=0.25)
    other.to_disk(tmp_path / "cosine")
    for read in (lambda: again.set_model(other.model), lambda: again.from_disk(tmp_path / "cosine")):
        with pytest.raises(PelError, match="a cosine lies between -1 and 1"):
            read()
    assert again.tuned.nil_threshold is None and again.rank([span], 3) == linker.rank([span], 3)


@pytest.mark.parametrize("layout", ["shared", "per_mention"])
@pytest.mark.parametrize("score", SCORES)
def test_fgsm_raises_the_loss_of_every_score(score, layout, tmp_path):
    fgsm = {"@misc": "spacy_pel.FGSM.v1", "epsilon": 1e-3}
    _, linker, examples, _ = build(tmp_path, score, layout=layout, adversarial=fgsm)
    twice = linker.update(examples)["pel_linker"]
    (tmp_path / "clean").mkdir()
    _, linker, examples, _ = build(tmp_path / "clean", score, layout=layout)
    assert twice > 2 * linker.update(examples)["pel_linker"]


@pytest.mark.parametrize("score", ["poly", "general"])
def test_codes_are_learnt_saved_and_part_of_the_mentions_fingerprint(score, tmp_path):
    nlp, linker, examples, optimizer = build(tmp_path, score, freeze_entities=True)
    linker.index(progress=False)
    codes = linker.model.get_ref("mention_tower").layers[0].shims[0]._model.pooling.codes
    before, fingerprints = codes.detach().clone(), {linker.mention_fingerprint}
    of_entities = linker.fingerprint
    assert before.shape == (4, 32) and 0.01 < before.std() < 0.03
    train(nlp, examples, optimizer, 2)
    assert (codes != before).all()
    linker.to_disk(tmp_path / "linker")
    again = spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "linker")
    learnt = again.model.get_ref("mention_tower").layers[0].shims[0]._model.pooling.codes
    np.testing.assert_array_equal(learnt.detach().numpy(), codes.detach().numpy())
    fingerprints.add(again.mention_fingerprint)
    learnt.data[0, 0] += 1
    again.set_model(again.model)
    assert len({*fingerprints, again.mention_fingerprint}) == 3
    assert again.fingerprint == of_entities and again.rank([make_docs(nlp)[0].ents[0]], 1), "as the KB was indexed"


def test_hard_negatives_are_those_of_the_score(indexed):
    _, linker = indexed
    session = linker.begin_training()
    spans = [ent for doc in make_docs(linker_nlp(linker)) for ent in doc.ents]
    vectors, places = encode_spans(linker.model, spans)
    scores, _ = session.live.part(None).search(vectors, 4)
    every = by_hand(linker, spans, ENTITIES)
    np.testing.assert_allclose(scores[places], np.sort(every, axis=1)[:, ::-1][:, :4], rtol=1e-4, atol=1e-4)
    again = session.live.part(None).scores(vectors, np.array([2, 7]))
    np.testing.assert_allclose(again[places], every[:, [2, 7]], rtol=1e-4, atol=1e-4)


def linker_nlp(linker):
    return spacy.blank("en", vocab=linker.vocab)


def test_dual_by_name_is_the_default(tmp_path):
    _, named, _, _ = build(tmp_path, None, model={"score": {"@architectures": "spacy_pel.DualScore.v1"}})
    (tmp_path / "other").mkdir()
    _, default, _, _ = build(tmp_path / "other", None)
    assert named.fingerprint == default.fingerprint
    assert "score" not in named.model.attrs["settings"]


def test_multi_vector_with_one_vector_ranks_as_dual(tmp_path):
    one = {"@architectures": "spacy_pel.MultiVectorScore.v1", "m": 1}
    nlp, linker, _, _ = build(tmp_path, None, model={"score": one})
    linker.index(progress=False)
    spans = [ent for doc in make_docs(nlp) for ent in doc.ents]
    ranked = linker.rank(spans, 5)
    fingerprint = linker.fingerprint
    (tmp_path / "dual").mkdir()
    nlp, linker, _, _ = build(tmp_path / "dual", None)
    linker.index(progress=False)
    assert linker.rank([ent for doc in make_docs(nlp) for ent in doc.ents], 5) == ranked
    assert linker.fingerprint != fingerprint


def test_multi_vectors_go_with_cosines_and_vectors_of_names(tmp_path):
    nlp, linker, examples, optimizer = build(
        tmp_path,
        "multi",
        model={"similarity": "cosine"},
        loss={"@misc": "spacy_pel.ProxyLoss.v1", "origin": 0.0},
    )
    losses = train(nlp, examples, optimizer, 20)
    assert losses[-1] < 0.3 * losses[0]
    linker.index(progress=False)
    vectors = flat(encode_entities(linker.model, ENTITIES))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    linker.vectors = "both"
    linker.index(progress=False)
    span = make_docs(nlp)[0].ents[0]
    (found,) = linker.find([span], 12)
    expected = by_hand(linker, [span], [linker.kb[id_] for id_ in found.ids])[0]
    np.testing.assert_allclose(found.parts[SIMILARITY], expected, rtol=1e-4, atol=1e-4)
    assert (found.parts[SIMILARITY] != found.parts[NAMES]).all()


@pytest.mark.parametrize(
    "score, settings, said",
    [
        ("sum", {"similarity": "cosine"}, r'SumOfMax.v1: similarity = \'cosine\'; make it "dot"'),
        ("poly", {"similarity": "cosine"}, 'PolyEncoder.v1: similarity .* make it "dot"'),
        ("multi", {"pooling": "mean"}, 'MultiVectorScore.v1: pooling .* make it "cls"'),
        ("sum", {"mentions": "document"}, 'SumOfMax.v1: mentions .* make it "windows"'),
        ("general", {"shared_towers": True}, "GeneralPoly.v1: shared_towers = True; make it false"),
    ],
)
def test_what_does_not_go_with_a_score_is_refused(score, settings, said, tmp_path):
    with pytest.raises(PelError, match=said):
        build(tmp_path, score, model=settings)


def test_a_score_that_is_none_is_refused(tmp_path):
    with pytest.raises(PelError, match=r"score = .* make it a section"):
        build(tmp_path, None, model={"score": {"@misc": "spacy_pel.FGSM.v1"}})


@pytest.mark.parametrize("score", ["sum", "poly", "general"])
def test_names_have_no_vectors_that_such_a_score_compares(score, tmp_path):
    with pytest.raises(PelError, match=r'compares a mention by several: set .* vectors = "entity"'):
        build(tmp_path, score, vectors="names")


def test_sum_of_max_goes_with_shared_towers(tmp_path):
    nlp, linker, examples, optimizer = build(tmp_path, "sum", model={"shared_towers": True})
    train(nlp, examples, optimizer, 2)
    linker.index(progress=False)
    check_search(linker, make_docs(nlp), ENTITIES)


def test_an_index_of_another_score_is_refused(tmp_path):
    _, linker, _, _ = build(tmp_path, "multi")
    linker.index(progress=False)
    encoder = encoder_of(linker.model)
    assert encoder.transformer is not None
    _, other, _, _ = make_pipeline(
        tmp_path / "encoder", linker.kb, model=MODEL | {"score": SCORES["multi"] | {"m": 2}}, **DOT
    )
    with pytest.raises(PelError, match="another encoder"):
        other.rank([make_docs(spacy.blank("en", vocab=other.vocab), SENTENCES[:1])[0].ents[0]], 1)


def test_what_is_searched_says_which(tmp_path):
    _, linker, _, _ = build(tmp_path, "sum")
    linker.index(progress=False)
    index = linker.kb.entity_index()
    assert index.n_vectors == counts_of(encode_entities(linker.model, ENTITIES)).sum() > 5 * len(ENTITIES)
    assert isinstance(scored_index.scored(index, score_of(linker.model)), ScoredIndex)
