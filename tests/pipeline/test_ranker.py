"""The component `pel_ranker`: behind a linker on a tiny random BERT."""

from __future__ import annotations

import pickle
import re
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.pipeline.functions import merge_entities
from spacy.tokens import Doc, Span
from spacy.training import Example
from tiny import (
    ENTITIES,
    SENTENCES,
    make_docs,
    make_examples,
    make_kb,
    make_pipeline,
    unit_vectors,
    unlinked,
    write_encoder,
)

from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.kb.entity import NIL, Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions
from spacy_pel.mentions.links import Link, mentions_of
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.pretrained import encoder_of
from spacy_pel.pipeline import candidates as candidates_file
from spacy_pel.pipeline.candidates import KeptCandidates
from spacy_pel.pipeline.choices import Choices
from spacy_pel.pipeline.ranker_tuning import Cost, _below
from spacy_pel.pipeline.upstream import Upstream
from spacy_pel.tuning.ranking import RankTuned

MODEL = {"@architectures": "spacy_pel.CrossEncoder.v1", "mention_length": 24, "entity_length": 24, "precision": "fp32"}
N_MENTIONS = sum(len(mentions) for _, mentions in SENTENCES)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A pipeline of a linker that was hardly trained and a ranker without training, and the encoder of both."""
    folder = tmp_path_factory.mktemp("saved")
    encoder = write_encoder(folder / "encoder")
    nlp, linker, examples, _ = make_pipeline(encoder, make_kb(folder / "kb"), top_k=12, max_candidates=3, lexical=None)
    linker.index(progress=False)
    ranker = nlp.add_pipe("pel_ranker", config={"top_n": 6, "model": MODEL})
    ranker.initialize(lambda: examples, nlp=nlp, encoder_loader=HFEncoder(str(encoder), dropout=0.0))
    nlp.to_disk(folder / "pipeline")
    return folder


@pytest.fixture
def nlp(saved):
    return spacy.load(saved / "pipeline")


@pytest.fixture
def ranker(nlp):
    return nlp.get_pipe("pel_ranker")


@pytest.fixture
def linker(nlp):
    return nlp.get_pipe("pel_linker")


def linked(nlp):
    return [ent for doc in nlp.pipe(make_docs(nlp)) for ent in doc.ents]


def ids_of(docs):
    return [(ent.kb_id_, [id_ for id_, _ in ent._.kb_ents]) for doc in docs for ent in doc.ents]


class Scores:
    """Takes the place of the cross-encoder: scores an entity by its place in a list of ids."""

    def __init__(self, monkeypatch, *best):
        self.best, self.seen = best, []
        monkeypatch.setattr("spacy_pel.pipeline.ranking.score_pairs", self)

    def __call__(self, model, spans, candidates):
        self.seen += zip(spans, candidates, strict=True)
        flat = [entity.id for own in candidates for entity in own]
        return np.array([-self.best.index(id_) if id_ in self.best else -99.0 for id_ in flat])


# --- ranking ---


def test_the_first_candidates_are_ranked_anew(nlp, linker, ranker, monkeypatch):
    (span, *_) = make_docs(nlp)[0].ents
    before = linker.links(linker.find([span], 8))[0]
    ids = [id_ for id_, _ in before.candidates]
    scores = Scores(monkeypatch, *reversed(ids))
    (after,) = ranker.rerank([span], [before])
    assert [id_ for id_, _ in after.candidates] == [*reversed(ids[:6]), *ids[6:]]
    assert dict(after.candidates) == dict(before.candidates)  # the scores of the linker
    assert after.kb_id == ids[5] and after.probability is None
    assert [entity.id for entity in scores.seen[0][1]] == ids[:6]


def test_what_stands_on_the_doc(nlp, ranker, monkeypatch):
    nlp.select_pipes(disable=["pel_ranker"])
    without = [(ent.kb_id_, ent._.kb_ents) for ent in linked(nlp)]
    assert {len(candidates) for _, candidates in without} == {6}  # those that the ranker wants
    nlp.enable_pipe("pel_ranker")
    Scores(monkeypatch, *sorted(entity.id for entity in ENTITIES))
    for ent, (_, candidates) in zip(linked(nlp), without, strict=True):
        best = sorted(candidates)[:3]
        assert (ent.kb_id_, ent._.kb_ents, ent._.kb_prob) == (best[0][0], best, None)


@pytest.mark.parametrize("change", [False, True])
def test_enabled_after_loading_it_ranks_as_many(saved, nlp, monkeypatch, change):
    Scores(monkeypatch, *sorted(entity.id for entity in ENTITIES))
    late = spacy.load(saved / "pipeline", disable=["pel_ranker"])
    if change:
        late.add_pipe("sentencizer")
    late.enable_pipe("pel_ranker")
    expected = ids_of(nlp.pipe(make_docs(nlp)))
    assert ids_of(late.pipe(make_docs(late))) == expected == ids_of(late.pipe(make_docs(late)))
    other = spacy.blank("en")
    other.add_pipe("pel_linker", source=nlp)
    assert ids_of(nlp.pipe(make_docs(nlp))) == expected, "as before it was lent to another pipeline"
    assert {len(ids) for _, ids in ids_of(other.pipe(make_docs(other)))} == {3}, "which has no ranker"


@Language.component("only_first")
def only_first(doc):
    for ent in doc.ents:
        ent._.kb_ents = ent._.kb_ents[-1:]
    return doc


def test_enabled_after_loading_it_leaves_what_another_component_has_chosen(saved):
    late = spacy.load(saved / "pipeline", disable=["pel_ranker"])
    late.add_pipe("only_first", after="pel_linker")
    late.enable_pipe("pel_ranker")
    assert [len(ids) for _, ids in ids_of(late.pipe(make_docs(late)))] == [1] * N_MENTIONS


@pytest.mark.parametrize("abbreviations", [None, [{"short_text": "MI"}]], ids=repr)
def test_candidates_of_docs_with_other_abbreviations_than_spans(nlp, linker, abbreviations):
    if not Doc.has_extension("abbreviations"):
        Doc.set_extension("abbreviations", default=None)
    doc = make_docs(nlp)[0]
    doc._.abbreviations = abbreviations
    (found, *_) = KeptCandidates(linker, 2).of(gold_mentions(doc))
    assert len(found.ids) == 2


@pytest.mark.parametrize("key", ["model", "adversarial"])
def test_what_learns_and_how_ends_a_training_when_it_is_set(nlp, ranker, key):
    ranker.update(make_examples(nlp))
    assert ranker.session is not None
    value = {"model": pickle.loads(pickle.dumps(ranker)).model, "adversarial": None}[key]
    setattr(ranker, key, value)
    assert ranker.session is None
    ranker.update(make_examples(nlp))
    assert getattr(ranker.session, key) is value


def test_of_two_linkers_the_one_before_it_counts(nlp, linker, ranker):
    ranker.begin_training()
    choices = ranker._choices
    first = nlp.add_pipe("pel_linker", name="first", first=True)
    assert (first.candidates_wanted(3), linker.candidates_wanted(3)) == (3, 6) and ranker.linker is linker
    ranker.begin_training()
    assert ranker._choices is choices


def test_without_a_ranker_a_linker_keeps_as_many_as_before(nlp):
    nlp.remove_pipe("pel_ranker")
    assert {len(ent._.kb_ents) for ent in linked(nlp)} == {3}


def test_nil_stays_nil(nlp, linker, ranker):
    linker.nil_threshold = 1.0
    assert {ent.kb_id_ for ent in linked(nlp)} == {NIL}
    linker.nil_threshold, linker.labels_discard = "tuned", ["X"]
    assert {(ent.kb_id_, len(ent._.kb_ents)) for ent in linked(nlp)} == {(NIL, 0)}


def test_groups_of_spans(nlp, linker, monkeypatch):
    linker.spans_key = "mine"
    Scores(monkeypatch, *sorted(entity.id for entity in ENTITIES))
    doc = nlp.make_doc("Aspirin after a heart attack and aspirin.")
    doc.spans["mine"] = [doc[0:1], doc[3:5], doc[6:7]]
    doc = nlp(doc)
    for span, candidates in zip(doc.spans["mine"], doc.spans["mine"].attrs["kb_ents"], strict=True):
        assert span.kb_id_ == candidates[0][0] == min(id_ for id_, _ in candidates) and len(candidates) == 3


@pytest.mark.parametrize("key", [None, "mine"])
def test_ids_that_the_linker_keeps_are_kept(nlp, linker, monkeypatch, key):
    linker.spans_key, linker.overwrite = key, False
    doc = nlp.make_doc("Aspirin after a heart attack and aspirin.")
    places = (0, 1), (3, 5), (6, 7)

    def spans(*kb_ids):
        return [Span(doc, *place, label="X", kb_id=kb_id) for place, kb_id in zip(places, kb_ids, strict=True)]

    def ids():
        return [span.kb_id_ for span in mentions_of(doc, key)]

    def run(*given):
        if key is None:
            doc.ents = given
        else:
            doc.spans[key] = given
        nlp(doc)
        return ids()

    Scores(monkeypatch, "D014262")
    linker.max_candidates = 12
    of_another = spans("D008094", "", "")
    of_another[0]._.kb_ents = [("D014262", 0.9), ("D008094", 0.8)]
    first = run(*of_another)
    assert first[0] == "D008094" and first[1:] == ["D014262"] * 2, "none of which was there before"
    assert run(*mentions_of(doc, key)) == first
    assert run(*spans("D001241", "D008094", "NIL")) == ["D001241", "D008094", "NIL"], "whatever kb_ents say"
    linker.overwrite = True
    assert run(*mentions_of(doc, key)) == ["D014262"] * 3


def test_it_is_explained_that_an_id_is_kept(nlp, linker, ranker):
    doc = make_docs(nlp)[0]
    linker.overwrite = False
    doc.ents = [Span(doc, 2, 3, label="X", kb_id="D-OLD"), Span(doc, 5, 7, label="X")]
    old, new = nlp(doc).ents
    for discarded in ([], ["X"]):
        linker.labels_discard = discarded
        for one in (linker, ranker):
            told = one.explain(old)
            assert told.reason.endswith("; but it had D-OLD already, which overwrite = false keeps")
            assert "keeps" not in one.explain(new).reason


def test_the_long_form_is_read(nlp, linker, ranker, monkeypatch):
    scores = Scores(monkeypatch, "D001281")
    doc = nlp.make_doc("Atrial fibrillation (AF) is common; AF needs treatment.")
    doc.ents = [doc.char_span(36, 38, label="X")]
    nlp(doc)
    assert [span.text for span, _ in scores.seen] == ["Atrial fibrillation"]
    linker.resolve_abbreviations = False
    nlp(doc)
    assert scores.seen[-1][0].text == "AF"


def test_the_other_name_is_read(nlp, monkeypatch):
    scores = Scores(monkeypatch, "D001241")
    doc = nlp.make_doc("Aspirin (zq) helped, and later zq again.")
    doc.ents = [doc.char_span(*place, label="X") for place in ((0, 7), (9, 11), (31, 33))]
    nlp(doc)
    read = [ent._.kb_read for ent in doc.ents]
    assert [span.text for span, _ in scores.seen] == read != [ent.text for ent in doc.ents]


def test_it_reads_the_same_where_tokens_have_changed(nlp, linker, ranker, monkeypatch):
    doc = nlp.make_doc("After a heart attack (HA) aspirin (zq) helped; HA and zq again.")
    places = (8, 20), (22, 24), (26, 33), (35, 37), (47, 49), (54, 56)
    doc.ents = [doc.char_span(*place, label="X") for place in places]
    doc = linker(doc)
    read = [ent._.kb_read for ent in doc.ents]
    assert read[1] == read[4] == "heart attack" and read != [ent.text for ent in doc.ents]
    later, cut = Doc.from_docs([nlp.make_doc("Before it."), doc]), doc[1:].as_doc(copy_user_data=True)
    for changed in (merge_entities(doc.copy()), later, cut):
        scores = Scores(monkeypatch, "D001241")
        ranker(changed)
        assert [span.text for span, _ in scores.seen] == read


def test_only_doubtful_mentions(nlp, linker, ranker, monkeypatch):
    spans = [ent for doc in make_docs(nlp) for ent in doc.ents][:3]
    links = linker.links(linker.find(spans, 6))
    links = [link._replace(probability=p) for link, p in zip(links, (0.2, 0.9, None), strict=True)]
    scores = Scores(monkeypatch)
    for below, expected in ((None, 3), (0.5, 2), (0.0, 1), ("tuned", 3)):
        scores.seen, ranker.rerank_below = [], below
        ranked = ranker.rerank(spans, links)
        assert len(scores.seen) == expected
        assert ranked[1].probability == (0.9 if expected < 3 else None)
    ranker.tuned = RankTuned(rerank_below=0.5)
    scores.seen = []
    assert ranker.rerank(spans, links)[1] == links[1] and len(scores.seen) == 2


def test_a_linker_without_probabilities_is_told(nlp, linker, ranker, monkeypatch):
    (span, *_) = make_docs(nlp)[0].ents
    (link,) = linker.links(linker.find([span], 6))
    Scores(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.rerank([span], [link])
        ranker.rerank_below = 0.9
        ranker.rerank([span, span], [link._replace(probability=0.5), Link(NIL, [])])
    with pytest.warns(UserWarning, match="pel_linker gives them no probability: run `python -m spacy pel tune-nil`"):
        nlp(span.doc)
    with pytest.warns(UserWarning) as said:
        ranker.rerank([span], [link])
    assert len(said) == 1 and said[0].filename == __file__


def test_an_entity_that_the_kb_has_lost_goes_behind(nlp, linker, ranker):
    (span, *_) = make_docs(nlp)[0].ents
    (link,) = linker.links(linker.find([span], 6))
    gone = link._replace(candidates=[("D-GONE", 0.99), *link.candidates[:5]])
    (after,) = ranker.rerank([span], [gone])
    assert after.candidates[-1] == ("D-GONE", 0.99) and after.kb_id != "D-GONE"
    lost = link._replace(candidates=[("D-GONE", 0.99), ("D-LOST", 0.5)])
    assert ranker.rerank([span, span], [lost, link])[0] == lost, "nothing to rank"


def test_an_entity_added_live_is_read(nlp, linker, ranker, tmp_path):
    linker.set_kb(linker.kb.copy_to(tmp_path / "kb"))
    linker.add_entities([Entity("NEW", "Aspirin heart", (), ("Chemical",), "Something new.")])
    (span, *_) = make_docs(nlp)[0].ents
    (link,) = linker.links(linker.find([span], 6))
    assert "NEW" in dict(link.candidates)
    assert "NEW" in dict(ranker.rerank([span], [link])[0].candidates)


def test_explained(nlp, linker, ranker, monkeypatch):
    (span, *_) = make_docs(nlp)[0].ents
    ids = [id_ for id_, _ in linker.rank([span], 8)[0]]
    Scores(monkeypatch, ids[2])
    told = ranker.explain(span, k=8)
    assert told.kb_id == ids[2] and told.reason == f"the linker's first was {ids[0]}" and told.confidence is None
    assert [one.id for one in told.candidates] == [ids[2], *ids[:2], *ids[3:]]
    assert [one.by_ranker for one in told.candidates] == [0.0, *[-99.0] * 5, None, None]
    assert "0.000 by the ranker" in str(told) and "not ranked" in str(told)
    linker.nil_threshold = 1.0
    assert ranker.explain(span).reason.endswith("and the linker calls it NIL")
    linker.nil_threshold = "tuned"
    linker.tune_nil(repeated(nlp), by_score=True)
    Knows(monkeypatch)
    ranker.tune(repeated(nlp))
    told = ranker.explain(repeated(nlp, 1)[1].ents[0])
    assert "reaches the NIL threshold" in told.reason and told.confidence > told.threshold and len(told.evidence) == 3
    ranker.rerank_below = 0.0
    assert ranker.explain(span) == linker.explain(span)


# --- its place in a pipeline ---


def test_docs_without_entities_need_no_kb():
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker")
    nlp.add_pipe("pel_ranker")
    assert nlp("No entity here.").ents == () and nlp("").ents == ()
    with pytest.raises(PelError, match="pel_linker has no KB"):
        nlp(make_docs(nlp)[0])


def test_it_says_what_it_needs(saved):
    nlp = spacy.blank("en")
    ranker = nlp.add_pipe("pel_ranker", config={"model": MODEL})
    with pytest.raises(PelError, match="pel_ranker ranks what a pel_linker before it finds"):
        nlp("text")
    source = spacy.load(saved / "pipeline")
    nlp.add_pipe("pel_linker", first=True, source=source)
    assert ranker.linker is nlp.get_pipe("pel_linker")
    nlp.get_pipe("pel_linker").top_k = 12
    with pytest.raises(PelError, match=r"top_n = 16 is more than the top_k = 12"):
        nlp("text")
    ranker.top_n = 4
    with pytest.raises(PelError, match="pel_ranker has no encoder yet"):
        nlp(make_docs(nlp)[0])


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"top_n": 1}, r"\[components.pel_ranker\]: top_n = 1"),
        ({"rerank_below": -0.5}, "rerank_below = -0.5"),
        ({"adversarial": {"@misc": "spacy_pel.ProxyLoss.v1"}}, "adversarial"),
        ({"adversarial": {"@misc": "spacy_pel.FGSM.v1", "epsilon": 0}}, r"^\[adversarial\] spacy_pel.FGSM.v1: epsilon"),
        ({"model": {"@architectures": "spacy_pel.BiEncoder.v1"}}, "model = .*CrossEncoder"),
    ],
)
def test_settings_are_checked(config, error):
    with pytest.raises(PelError, match=error):
        spacy.blank("en").add_pipe("pel_ranker", config=config)


@pytest.mark.parametrize("how", ["disabled", "removed", "behind"])
def test_it_says_where_no_linker_has_linked(nlp, linker, how):
    if how == "disabled":
        nlp.disable_pipe("pel_linker")
    else:
        nlp.remove_pipe("pel_linker")
    if how == "behind":
        nlp.add_pipe("pel_linker")
        nlp.get_pipe("pel_linker").set_model(linker.model)
        nlp.get_pipe("pel_linker").set_kb(linker.kb)
    with pytest.warns(UserWarning, match="pel_ranker got mentions that pel_linker has not linked"):
        list(nlp.pipe(unlinked(nlp)))


def test_it_does_not_learn_from_a_linker_that_is_learning(nlp, linker, ranker):
    examples, optimizer = make_examples(nlp), nlp.create_optimizer()
    with pytest.raises(PelError, match=r"pel_linker is being trained together with pel_ranker.*frozen_components"):
        nlp.update(examples, sgd=optimizer)
    with pytest.raises(PelError, match="pel_linker has new weights now, and links nothing until it is indexed"):
        ranker.update(examples)


def test_bytes_without_its_model_leave_it_its_own(ranker):
    model, ranker.tuned = ranker.model, RankTuned(weight=0.5)
    data = ranker.to_bytes(exclude=["model"])
    ranker.tuned = RankTuned()
    ranker.from_bytes(data)
    assert ranker.model is model and ranker.tuned.weight == 0.5


def test_gradients_that_come_with_an_update_that_it_refuses_leave_the_linker_as_it_was(nlp, linker, ranker):
    examples, optimizer = make_examples(nlp), nlp.create_optimizer()
    before, fingerprint = ids_of(nlp.pipe(unlinked(nlp))), linker.mention_fingerprint
    nlp.update([Example(nlp.make_doc("Nothing here ."), nlp.make_doc("Nothing here ."))], sgd=optimizer)
    with pytest.raises(PelError, match=r"pel_linker is being trained together with pel_ranker.*index it before\.$"):
        nlp.update(examples, sgd=False)
    assert ids_of(nlp.pipe(unlinked(nlp))) == before
    ranker.update(examples)
    linker.finish_update(optimizer)
    linker.set_model(linker.model)
    assert linker.mention_fingerprint == fingerprint


@pytest.mark.parametrize("gain", [2, -1, "a", float("nan"), True])
def test_a_gain_is_a_share(nlp, ranker, gain):
    with pytest.raises(PelError, match=r"ranker.tune: gain = .*at least 0 and at most 1"):
        ranker.tune(make_docs(nlp), gain=gain)


def test_a_file_of_candidates_has_a_name(nlp, ranker):
    with pytest.raises(PelError, match=r"\[initialize.components.pel_ranker\]: candidates = ''; name a file"):
        ranker.initialize(lambda: make_examples(nlp), nlp=nlp, candidates="")


def test_it_comes_back(nlp, ranker, tmp_path):
    ranker.tuned = RankTuned(weight=2.5, rerank_below=0.7)
    expected = ids_of(nlp.pipe(make_docs(nlp)))
    nlp.to_disk(tmp_path / "again")
    again = [
        spacy.load(tmp_path / "again"),
        spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()),
    ]
    pipes = pickle.loads(pickle.dumps([pipe for _, pipe in nlp.pipeline]))
    assert pipes[1].linker is pipes[0] and pipes[0].candidates_wanted(3) == 6
    for one in again:
        assert one.get_pipe("pel_ranker").tuned == ranker.tuned
        assert one.get_pipe("pel_ranker").linker is one.get_pipe("pel_linker")
        assert ids_of(one.pipe(make_docs(one))) == expected
    docs = make_docs(nlp)
    for pipe in pipes:
        docs = list(pipe.pipe(docs))
    assert ids_of(docs) == expected


def test_a_deep_copy_keeps_who_listens_to_whom_and_a_handler_that_cannot_be_pickled(nlp):
    nlp.add_pipe("pel_linker", source=nlp, name="second")
    nlp.add_pipe("pel_ranker", name="other", config={"top_n": 4, "model": MODEL})
    handler = lambda *_: None  # noqa: E731
    nlp.set_error_handler(handler)
    again = deepcopy(nlp)
    for ranker, linker in (("pel_ranker", "pel_linker"), ("other", "second")):
        assert again.get_pipe(ranker).linker is again.get_pipe(linker) is not nlp.get_pipe(linker)
        assert again.get_pipe(ranker).linker.listener_map[ranker] is again.get_pipe(ranker)
    assert all(pipe.get_error_handler() is handler for _, pipe in again.pipeline)


def test_several_processes(nlp):
    expected = ids_of(nlp.pipe(make_docs(nlp)))
    assert ids_of(nlp.pipe(make_docs(nlp), n_process=2, batch_size=2)) == expected


def test_a_broken_folder_is_named(nlp, tmp_path):
    nlp.to_disk(tmp_path / "p")
    weights = tmp_path / "p" / "pel_ranker" / "model" / "pairs" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(PelError, match=r"pairs/model\.safetensors"):
        spacy.load(tmp_path / "p")


def test_a_linker_tells_those_behind_it():
    class Listens:
        name, told = "one", ()

        def listen_to(self, linker):
            self.told = (*self.told, linker)

    upstream, one = Upstream(), Listens()
    upstream.find_listeners(one)
    upstream.find_listeners(object())
    assert one.told == (upstream,) and upstream.listener_map == {"one": one} and Upstream.listener_map == {}


# --- training ---


def test_the_linkers_encoder_is_where_it_begins(nlp, linker):
    ranker = nlp.add_pipe("pel_ranker", name="other", config={"top_n": 4, "model": MODEL})
    ranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    own = ranker.model.layers[0].shims[0]._model.transformer.state_dict()
    theirs = linker.model.get_ref("mention_tower").layers[0].shims[0]._model.transformer.state_dict()
    assert own.keys() == theirs.keys()
    for key, tensor in own.items():
        assert (tensor == theirs[key]).all() and tensor.data_ptr() != theirs[key].data_ptr()


def test_a_corpus_without_ids_is_found_at_initialisation(nlp, linker, ranker):
    examples = make_examples(nlp, [(text, dict.fromkeys(found, "")) for text, found in SENTENCES])
    with pytest.raises(PelError, match=r"None of the 12 mentions .* has an id that pel_ranker could learn"):
        ranker.initialize(lambda: examples, nlp=nlp)
    linker.spans_key = "sc"
    examples = make_examples(nlp)
    for eg in examples:
        eg.reference.spans["sc"] = list(eg.reference.spans.pop(GOLD_GROUP))
        eg.reference.set_ents([])
    with pytest.raises(PelError, match=r"pel_ranker has nothing to learn: gold is read from doc\.ents"):
        ranker.initialize(lambda: examples, nlp=nlp)


@pytest.fixture
def asked(linker, monkeypatch):
    """The spans that the linker is asked for."""
    spans, find = [], linker.find
    monkeypatch.setattr(type(linker), "find", lambda self, own, k, **o: spans.extend(own) or find(own, k, **o))
    return spans


def test_each_mention_is_searched_once(nlp, linker, ranker, asked, tmp_path):
    examples = make_examples(nlp)
    file = tmp_path / "candidates.jsonl"
    for _ in range(2):
        ranker.initialize(lambda: examples, nlp=nlp, candidates=file)
        for _ in range(2):
            ranker.update(examples)
        assert len(asked) == N_MENTIONS
    assert len(file.read_text().splitlines()) == N_MENTIONS + 1
    ranker.top_n = 5  # the first of those that are kept
    ranker.initialize(lambda: examples, nlp=nlp, candidates=file)
    ranker.top_n = 7
    assert len(asked) == N_MENTIONS
    ranker.initialize(lambda: examples, nlp=nlp, candidates=file)
    assert len(asked) == 2 * N_MENTIONS
    assert KeptCandidates(linker, 7, file).of(gold_mentions(make_docs(nlp)[0])) == [
        ([id_ for id_, _ in ranked], None) for ranked in linker.rank(make_docs(nlp)[0].ents, 7)
    ]


def test_a_file_that_holds_no_candidates_is_named_and_that_of_another_linker_is_written_anew(nlp, linker, tmp_path):
    file, mentions = tmp_path / "candidates.jsonl", gold_mentions(make_docs(nlp)[0])
    KeptCandidates(linker, 5, file).of(mentions)
    whole = file.read_bytes()
    for broken in (whole + b"nothing\n", whole + b"{}\n", b"[]\n"):
        file.write_bytes(broken)
        with pytest.raises(PelError, match=r"candidates\.jsonl: holds no candidates"):
            KeptCandidates(linker, 5, file)
    file.write_text('{"of": 3}\nnothing\n')
    KeptCandidates(linker, 5, file).of(mentions)
    assert file.read_bytes() == whole


def test_initialize_makes_all_examples_once(nlp, ranker, monkeypatch):
    examples, made = make_examples(nlp), []
    monkeypatch.setattr("spacy_pel.pipeline.learning.EXAMPLES_CHECKED", 2)
    ranker.initialize(lambda: (made.append(eg) or eg for eg in examples), nlp=nlp)
    assert len(made) == len(examples) + 2


def test_candidates_of_a_streamed_corpus_are_kept_too(nlp, ranker, asked, tmp_path):
    """spaCy shows `initialize` the first Examples of it only."""
    examples, file = make_examples(nlp), tmp_path / "candidates.jsonl"
    for _ in range(2):
        ranker.initialize(lambda: examples[:2], nlp=nlp, candidates=file)
        ranker.update(examples)
        assert len(asked) == N_MENTIONS
        assert len(file.read_text().splitlines()) == N_MENTIONS + 1
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])  # as a training leaves it that was killed
    ranker.initialize(lambda: examples, nlp=nlp, candidates=file)
    assert len(asked) == N_MENTIONS + 1 and file.read_bytes() == whole


def test_only_so_many_candidates_are_kept(nlp, linker, asked, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.pipeline.candidates.MOST_KEPT", 5)
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    kept = KeptCandidates(linker, 4, tmp_path / "candidates.jsonl")
    first = [one for start in range(0, N_MENTIONS, 3) for one in kept.of(mentions[start : start + 3])]
    assert first == kept.of(mentions) == KeptCandidates(linker, 4).of(mentions)
    assert len(asked) == 3 * N_MENTIONS - 5
    assert len((tmp_path / "candidates.jsonl").read_text().splitlines()) == 6


def test_a_file_with_more_candidates_than_are_kept_gets_no_more(nlp, linker, tmp_path, monkeypatch):
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    file = tmp_path / "candidates.jsonl"
    KeptCandidates(linker, 4, file).of(mentions[:3])
    there = file.read_bytes()
    monkeypatch.setattr("spacy_pel.pipeline.candidates.MOST_KEPT", 2)
    assert KeptCandidates(linker, 4, file).of(mentions) == KeptCandidates(linker, 4).of(mentions)
    assert file.read_bytes() == there


def test_a_file_of_candidates_that_another_training_has_replaced_stays_as_it_is(nlp, linker, tmp_path):
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    file = tmp_path / "candidates.jsonl"
    kept = KeptCandidates(linker, 4, file)
    kept.of(mentions[:3])
    KeptCandidates(linker, 5, file).of(mentions[:2])
    there = file.read_bytes()
    assert len(kept.of(mentions)) == N_MENTIONS and file.read_bytes() == there


def test_what_is_appended_while_another_process_appends_stays_whole(nlp, linker, tmp_path, monkeypatch):
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    file = tmp_path / "candidates.jsonl"
    own, other = KeptCandidates(linker, 4, file), KeptCandidates(linker, 4, file)
    own.of(mentions[:1])
    other = KeptCandidates(linker, 4, file)
    lines, waiting = candidates_file._lines, [mentions[1:4]]

    def interrupted(found):
        if waiting:
            other.of(waiting.pop())
        return lines(found)

    monkeypatch.setattr(candidates_file, "_lines", interrupted)
    own.of(mentions[4:5])
    assert len(file.read_text().splitlines()) == 1 + 5
    assert not KeptCandidates(linker, 4, file).lacking(mentions[:5])


def test_a_ranker_learns_from_the_linker_as_it_is(nlp, linker, ranker, tmp_path):
    linker.set_kb(linker.kb.copy_to(tmp_path / "kb"))
    examples, mentions = make_examples(nlp), [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    file = tmp_path / "candidates.jsonl"
    ranker.initialize(lambda: examples, nlp=nlp, candidates=file)

    def offered():
        ranker.begin_training()
        return [[entity.id for entity in one.candidates] for one in ranker._choices.of(mentions)]

    assert {len(ids) for ids in offered()} == {6}
    kept = ranker._choices
    offered()
    assert ranker._choices is kept
    ranker.top_n = 3
    before = offered()
    assert {len(ids) for ids in before} == {3}
    gone = next(id_ for id_ in before[0] if id_ not in mentions[0].ids)
    linker.remove_entities([gone])
    after = offered()
    assert {len(ids) for ids in after} == {3} and gone not in {id_ for ids in after for id_ in ids}
    assert not KeptCandidates(linker, 3, file).lacking(mentions)


def test_a_copy_of_a_frozen_encoder_learns(linker):
    tower_module(linker.model.get_ref("mention_tower")).requires_grad_(False)
    assert all(weight.requires_grad for weight in encoder_of(linker.model).transformer.parameters())


def test_candidates_of_a_kb_that_has_changed_are_searched_again(nlp, linker, tmp_path, monkeypatch):
    linker.set_kb(linker.kb.copy_to(tmp_path / "kb"))
    file, mentions = tmp_path / "candidates.jsonl", gold_mentions(make_docs(nlp)[0])

    def is_kept():
        kept = KeptCandidates(linker, 5, file)
        known = bool(kept._kept)
        kept.of(mentions)
        return known

    assert [is_kept(), is_kept()] == [False, True]
    changed = replace(next(linker.kb.entities()), name="quite another name")
    vectors = unit_vectors(1, linker.kb.entity_index().dim)
    linker.kb.update([changed], NewVectors(linker.kb.entity_index().fingerprint, vectors))
    linker.kb.compact()  # as many rows as before
    assert [is_kept(), is_kept()] == [False, True]
    linker.index(progress=False)
    assert [is_kept(), is_kept()] == [False, True]


def test_candidates_of_a_doc_with_other_mentions_are_searched_again(nlp, linker, tmp_path):
    file, (doc, *_) = tmp_path / "candidates.jsonl", make_docs(nlp)
    kept = KeptCandidates(linker, 5, file)
    kept.of(gold_mentions(doc))
    kept.of(gold_mentions(doc))
    assert len(kept._kept) == len(doc.ents) > 1
    first, doc.ents = gold_mentions(doc)[:1], doc.ents[:1]
    kept.of(first)
    assert len(kept._kept) == len(KeptCandidates(linker, 5, file)._kept) > 1 + len(doc.ents)


def test_the_gold_entity_takes_the_place_of_the_last(nlp, linker):
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    found = [[id_ for id_, _ in ranked] for ranked in linker.rank([one.span for one in mentions], 3)]
    choices = Choices(linker, KeptCandidates(linker, 3), 3, seed=0).of(mentions)
    assert any(not set(one.ids) & set(ids) for one, ids in zip(mentions, found, strict=True))
    for mention, ids, choice in zip(mentions, found, choices, strict=True):
        own = [entity.id for entity in choice.candidates]
        assert own == (ids if set(mention.ids) & set(ids) else [*ids[:2], mention.ids[0]])
        assert choice.right == [id_ in mention.ids for id_ in own]
        assert choice.wrong == [not right for right in choice.right]
    unknown = Span(mentions[0].span.doc, 2, 3, label="X", kb_id="NO-SUCH")
    assert (
        Choices(linker, KeptCandidates(linker, 3), 3, seed=0).of([mentions[0]._replace(span=unknown, ids=("?",))]) == []
    )


@pytest.mark.parametrize("key", ["types", "types_by_label"])
def test_an_entity_that_the_linker_does_not_allow_is_not_learnt(nlp, linker, key):
    mentions = [mention for doc in make_docs(nlp) for mention in gold_mentions(doc)]
    label, types = mentions[0].span.label_, {entity.id: entity.types for entity in ENTITIES}
    setattr(linker, key, ["Disease"] if key == "types" else {label: ["Disease"]})
    learnt = [mention.span.text for mention in mentions if types[mention.ids[0]] == ("Disease",)]
    choices = Choices(linker, KeptCandidates(linker, 3), 3, seed=0).of(mentions)
    assert [choice.span.text for choice in choices] == learnt and 0 < len(learnt) < len(mentions)
    assert {kind for choice in choices for entity in choice.candidates for kind in entity.types} == {"Disease"}
    both = mentions[0]._replace(ids=tuple(types))
    (choice,) = Choices(linker, KeptCandidates(linker, 12), 12, seed=0).of([both])
    assert all(choice.right) and not any(choice.wrong)


def test_a_choice_reads_what_the_linker_read(nlp, linker, tmp_path):
    """A mention by the other name that has the better score, an abbreviation by its long form; from the file too."""
    doc = nlp.make_doc("After a heart attack (HA) aspirin (zq) helped; HA and zq again.")
    places = (8, 20), (22, 24), (26, 33), (35, 37), (47, 49), (54, 56)
    doc.ents = [doc.char_span(*place, label="X", kb_id="D001241") for place in places]
    mentions = gold_mentions(doc)
    read = [found.read.text for found in linker.find([one.span for one in mentions], 3)]
    assert read[1] == read[4] == "heart attack" and read[2] == read[3]  # one of "aspirin" and "zq"
    for _ in range(2):
        kept = KeptCandidates(linker, 3, tmp_path / "candidates.jsonl")
        choices = Choices(linker, kept, 3, seed=0).of(mentions)
        assert [choice.span.text for choice in choices] == read


def test_the_same_concept_is_not_wrong(nlp, linker, tmp_path, monkeypatch):
    rows = linker.kb.rows(["D001241", "D008094"])
    monkeypatch.setattr(type(linker.kb), "same_concepts", lambda self: np.array([list(rows.values())]))
    mention = gold_mentions(make_docs(nlp)[0])[0]
    assert mention.ids == ("D001241",)
    (choice,) = Choices(linker, KeptCandidates(linker, 12), 12, seed=0).of([mention])
    neither = [one.id for one, right, wrong in zip(*choice[1:], strict=True) if not right and not wrong]
    assert neither == ["D008094"]


def test_it_learns_and_leaves_the_linker_alone(nlp, linker, ranker):
    examples, before = make_examples(nlp), linker.fingerprint
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 3e-3
    ranker.tuned = RankTuned(weight=3.0)
    first = ranker.update(examples, sgd=optimizer)["pel_ranker"]
    assert ranker.tuned == RankTuned()  # fitted to other scores
    for _ in range(150):
        last = ranker.update(examples, sgd=optimizer)["pel_ranker"]
    assert last < 0.5 * first and linker.fingerprint == before and linker.session is None
    assert ranker.score(examples)["nel_recall_at_1"] > linker.score(examples)["nel_recall_at_1"]
    measured = evaluate(nlp, make_docs(nlp))
    assert measured["recall_at_1"] == ranker.score(examples)["nel_recall_at_1"]
    right = sum(ent.kb_id_ == gold.kb_id_ for ent, gold in zip(linked(nlp), _gold(nlp), strict=True))
    assert measured["recall_at_1"] == pytest.approx(right / N_MENTIONS)


def _gold(nlp):
    return [ent for doc in make_docs(nlp) for ent in doc.ents]


def test_only_predicted_mentions(nlp, ranker):
    ranker.use_gold_ents = False
    examples = make_examples(nlp)
    assert ranker.update(examples)["pel_ranker"] == 0.0
    for example in examples[:1]:
        example.predicted.ents = [
            Span(example.predicted, ent.start, ent.end, label="X") for ent in example.reference.ents
        ]
    assert ranker.update(examples)["pel_ranker"] > 0


# --- tuning ---


def repeated(nlp, n=12):
    """Docs in which a third of the mentions is NIL."""
    docs = make_docs(nlp, SENTENCES * n)
    for i, doc in enumerate(docs):
        if i % 3 == 0:
            group = [Span(doc, span.start, span.end, label="X", kb_id=NIL) for span in doc.spans["gold_mentions"]]
            doc.spans["gold_mentions"] = group
    return docs


class Knows(Scores):
    """Scores the gold entity best, and of a NIL mention all alike."""

    def __call__(self, model, spans, candidates):
        scores = []
        for span, own in zip(spans, candidates, strict=True):
            gold = next(one.kb_id_ for one in span.doc.spans["gold_mentions"] if one.start == span.start)
            scores += [5.0 if entity.id == gold else 0.0 for entity in own]
        return np.array(scores)


def test_tuning(nlp, linker, ranker, monkeypatch):
    docs = repeated(nlp)
    linker.tune_nil(docs, by_score=True)
    Knows(monkeypatch)
    tuned = ranker.tune(docs, gain=0.95)
    assert tuned.before < tuned.after == tuned.alone
    assert tuned.elsewhere.mean > tuned.by_linker.mean
    assert tuned.nil.f1 == 1.0 and tuned.too_few is None and ranker.threshold == tuned.nil.threshold
    shares, recalls = [one.share for one in tuned.costs], [one.recall_at_1 for one in tuned.costs]
    assert shares == sorted(shares) and (shares[0], shares[-1]) == (0.0, 1.0)
    assert (recalls[0], recalls[-1]) == (tuned.before, tuned.after)
    cost = next(one for one in tuned.costs if one.below == tuned.below)
    assert cost.recall_at_1 >= tuned.before + 0.95 * (tuned.after - tuned.before)
    ranker.rerank_below = None
    docs = list(nlp.pipe(repeated(nlp, 1)))
    for doc in docs:
        for ent, gold in zip(doc.ents, doc.spans["gold_mentions"], strict=True):
            if gold.kb_id_ == NIL:
                assert ent.kb_id_ == NIL and ent._.kb_prob < 0.5
            elif gold.kb_id_ in dict(ent._.kb_ents):
                assert ent.kb_id_ == gold.kb_id_ and ent._.kb_prob > 0.5


def test_the_whole_gain_needs_no_more_mentions_than_all(nlp, linker, ranker, monkeypatch):
    docs = repeated(nlp)
    linker.tune_nil(docs)
    Knows(monkeypatch)
    tuned = ranker.tune(docs, gain=1.0)
    assert next(one for one in tuned.costs if one.below == tuned.below).recall_at_1 == tuned.after


def test_a_share_of_the_gain_that_rounding_lifts_over_all_of_it():
    least, most = 2 / 22, 9 / 22
    assert least + 1.0 * (most - least) > most
    costs = [Cost(0.0, 0.1, least), Cost(1.0, 0.9, most)]
    assert _below(costs, 1.0) == 0.9


@pytest.mark.parametrize(("setting", "nil"), [(None, False), (-1.0, False), (1.0, True)])
def test_a_nil_threshold_that_is_set_on_the_linker_wins(nlp, linker, ranker, monkeypatch, setting, nil):
    docs = repeated(nlp)
    linker.tune_nil(docs, by_score=True)
    Knows(monkeypatch)
    assert ranker.tune(docs).nil is not None
    linker.nil_threshold = setting
    assert ranker.threshold == setting
    span = next(one for doc in docs for one in doc.spans["gold_mentions"] if one.kb_id_ == NIL)
    assert (ranker.explain(span).kb_id == NIL) is nil
    (link,) = ranker.rerank([span], linker.links(linker.find([span], 8)))
    assert (link.kb_id == NIL) is nil and link.probability is not None
    with pytest.warns(UserWarning, match=re.escape(f"nil_threshold = {'null' if setting is None else setting} wins")):
        ranker.tune(docs)


def test_nil_is_measured_as_it_is_linked(nlp, linker, ranker, monkeypatch):
    """Where the ranker leaves mentions alone, the linker's confidence of these is not held against its threshold."""
    docs = repeated(nlp)
    linker.tune_nil(docs, by_score=True)
    Knows(monkeypatch)
    ranker.tune(docs)
    ranker.rerank_below = 0.5
    linked_as = [ent.kb_id_ == NIL for doc in nlp.pipe(repeated(nlp)) for ent in doc.ents]
    gold = [one.kb_id_ == NIL for doc in docs for one in doc.spans["gold_mentions"]]
    found = evaluate(nlp, docs)
    both = sum(one and other for one, other in zip(linked_as, gold, strict=True))
    assert 0 < sum(linked_as) < len(gold)
    assert (found["nil_precision"], found["nil_recall"]) == (both / sum(linked_as), both / sum(gold))


@pytest.mark.parametrize("gain", [None, 0.0])
def test_what_tuning_tells_is_of_the_ranker_that_it_keeps(nlp, linker, ranker, monkeypatch, gain):
    docs = repeated(nlp)
    linker.tune_nil(docs, by_score=True)
    Knows(monkeypatch)
    tuned = ranker.tune(docs, gain=gain)
    found = evaluate(nlp, docs)
    assert tuned.after == pytest.approx(found["recall_at_1"]) == pytest.approx(tuned.nil.recall_at_1)
    assert (tuned.after < tuned.costs[-1].recall_at_1) == (gain is not None)
    assert tuned.nil[1:4] == pytest.approx((found["nil_precision"], found["nil_recall"], found["nil_f1"]))
    assert tuned.nil.right == pytest.approx(found["all_recall_at_1"])


def test_with_few_nil_mentions_the_linker_decides(nlp, linker, ranker, monkeypatch):
    Knows(monkeypatch)
    tuned = ranker.tune(make_docs(nlp))
    assert tuned.nil is None and "NIL mentions are too few" in tuned.too_few and tuned.costs == []
    assert ranker.threshold == linker.threshold
    with pytest.raises(PelError, match="run `tune-nil` first"):
        ranker.tune(make_docs(nlp), gain=0.9)
    linker.nil_threshold = 1.0
    assert {ent.kb_id_ for ent in linked(nlp)} == {NIL}


def test_the_linker_decides_where_it_is_better(nlp, linker, ranker, monkeypatch):
    docs = repeated(nlp)
    held = {(id(one.doc), one.start): float(one.kb_id_ != NIL) for doc in docs for one in doc.spans["gold_mentions"]}
    links = type(linker).links

    def all_right(self, found):
        return [
            link._replace(confidence=held[id(one.read.doc), one.read.start])
            for link, one in zip(links(self, found), found)
        ]

    monkeypatch.setattr(type(linker), "links", all_right)
    Scores(monkeypatch)
    tuned = ranker.tune(docs)
    assert tuned.by_linker.mean == 1.0 >= tuned.elsewhere.mean
    assert tuned.nil is None and tuned.too_few is None and ranker.tuned.in_kb is None
    assert ranker.tuned.gives_probabilities and ranker.threshold == linker.threshold


@pytest.mark.parametrize(
    ("pipe", "scores"),
    [("pel_ranker", "int8 behind a linker in float"), ("pel_linker", "float behind a linker in int8")],
)
def test_probabilities_of_another_precision_are_dropped(nlp, linker, ranker, tmp_path, pipe, scores):
    ranker.tune(make_docs(nlp))
    assert ranker.tuned.gives_probabilities
    nlp.to_disk(tmp_path / "tuned")
    again = spacy.load(tmp_path / "tuned", config={f"components.{pipe}.model.precision": "int8"})
    with pytest.warns(UserWarning) as caught:
        linked(again)
    (told,) = [str(one.message) for one in caught if "pel_ranker" in str(one.message)]
    assert f"tuned for scores in float behind a linker in float, and they are now in {scores}. Run" in told
    tuned = again.get_pipe("pel_ranker").tuned
    assert not tuned.gives_probabilities and tuned.weight == pytest.approx(ranker.tuned.weight)
    same = spacy.load(tmp_path / "tuned", config={"components.pel_ranker.model.precision": "fp32"})
    linked(same)
    assert same.get_pipe("pel_ranker").tuned.gives_probabilities


def test_it_warns_where_the_linker_was_tuned_later(nlp, linker, ranker, tmp_path):
    ranker.tune(make_docs(nlp))
    nlp.to_disk(tmp_path / "tuned")
    again = spacy.load(tmp_path / "tuned")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linked(again)
    again.get_pipe("pel_linker").tune_nil(repeated(again))
    with pytest.warns(UserWarning, match="pel_ranker was tuned behind another pel_linker, or before"):
        linked(again)
    again.get_pipe("pel_ranker").tune(make_docs(again))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linked(again)


def test_the_linker_does_not_ask_for_entities_while_a_ranker_behind_it_trains(nlp, linker, ranker):
    docs = [nlp.make_doc(doc.text) for doc in make_docs(nlp)]
    with pytest.warns(UserWarning, match="has looked for entities"):
        linker.predict(docs)
    ranker.begin_training()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.predict(docs)


def test_nothing_to_tune_on(nlp, linker, ranker):
    doc = nlp.make_doc("nothing known")
    doc.spans["gold_mentions"] = [Span(doc, 0, 1, label="X", kb_id="NO-SUCH")]
    with pytest.raises(PelError, match="no mention has its entity among its candidates"):
        ranker.tune([doc])


def test_tuned_is_written_and_read():
    from spacy_pel.tuning.decision import fit_logistic
    from spacy_pel.tuning.ranking import RANKED, decided, in_order

    rng = np.random.default_rng(0)
    links = [Link("A", [("A", 0.9), ("B", 0.5)], 0.6), Link(NIL, [("B", 0.4)]), Link(NIL, [])]
    made, evidence = in_order(links, [np.array([0.0, 3.0]), np.array([1.0]), np.array([])], 1.0)
    assert [one.kb_id for one in made] == ["B", NIL, NIL] and evidence.shape == (3, len(RANKED))
    fitted = fit_logistic(rng.normal(size=(40, len(RANKED))), rng.random(40) < 0.5)
    tuned = RankTuned(1.5, fitted, fitted, 0.5, 0.9)
    again = RankTuned.from_dict(tuned.to_dict() | {"other": 1})
    assert decided(made, evidence, again) == decided(made, evidence, tuned)
    stored = tuned.to_dict()
    stored["in_kb"]["columns"] = ["others"]
    older = RankTuned.from_dict(stored)
    assert older.in_kb is None and older.nil_threshold is None and older.right is not None


def test_a_config_of_another_pipeline_beside_it_is_noticed(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    config = tmp_path / "pipeline" / "config.cfg"
    text = config.read_text()
    config.write_text(
        text.replace("mention_length = 24\nentity_length = 24", "mention_length = 24\nentity_length = 20")
    )
    assert config.read_text() != text
    with pytest.raises(PelError, match=r"pel_ranker: was saved with another config.cfg .*model\]: entity_length"):
        nlp.get_pipe("pel_ranker").from_disk(tmp_path / "pipeline" / "pel_ranker")


def test_a_property_that_fails_fails_with_its_own_error(ranker, monkeypatch):
    monkeypatch.setattr(type(ranker), "threshold", property(lambda self: self.settings.missing))
    with pytest.raises(AttributeError, match="'RankSettings' object has no attribute 'missing'"):
        _ = ranker.threshold
