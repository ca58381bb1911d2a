"""What a linker keeps while it learns: refreshes, the age of its vectors, the rows it has seen."""

from __future__ import annotations

import io
import pickle
import re
import warnings
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import registry
from tiny import ENTITIES, make_config, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.evaluation.scorer import LinkScorer
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.numbering import is_among
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.search.search import Queries
from spacy_pel.training import session
from spacy_pel.training.callbacks import RefreshNegatives
from spacy_pel.training.layouts import TrainingBatch
from spacy_pel.training.negatives import RandomNegatives
from spacy_pel.training.optimizer import AdamW, make_warmup_linear


@pytest.fixture
def pipeline(tmp_path):
    return make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))


def test_a_kb_that_is_numbered_anew_begins_the_training_anew(pipeline):
    nlp, linker, examples, optimizer = pipeline
    linker.kb.remove(["D001241"])
    train(nlp, examples, optimizer, 1)
    before = linker.session
    linker.kb.compact()
    train(nlp, examples, optimizer, 1)
    assert linker.session is not before
    linker.kb.remove(["D008094"])
    linker.kb.compact()
    linker.score(examples)
    assert len(linker.session.live) == len(linker.kb) == len(ENTITIES) - 2
    live = linker.session.live
    for id_, place in live.places_by_id([entity.id for entity in ENTITIES]).items():
        expected = row_builder(linker.model).entities([linker.kb[id_]])
        assert (live.token_rows.take([place]).tokens == expected.tokens).all()


def test_an_entity_that_is_removed_before_they_are_read_shifts_no_others(pipeline):
    nlp, linker, examples, optimizer = pipeline
    live = linker.begin_training().live
    KnowledgeBase(linker.kb.path).remove(["D001241"])
    with pytest.raises(PelError, match="has changed since the training began; begin the training again"):
        _ = live.token_rows
    assert linker.begin_training().live is not live
    train(nlp, examples, optimizer, 1)
    assert len(linker.session.live.token_rows) == len(ENTITIES) - 1


def test_an_origin_that_was_fitted_stays_when_a_training_goes_on(tmp_path):
    loss = {"@misc": "spacy_pel.ProxyLoss.v1", "origin": "auto"}
    encoder = write_encoder(tmp_path / "encoder")
    nlp, linker, examples, optimizer = make_pipeline(encoder, make_kb(tmp_path / "kb"), loss=loss, adversarial=None)
    train(nlp, examples, optimizer, 20)
    origin = linker.session.loss.origin
    linker.index(progress=False)
    train(nlp, examples, optimizer, 1)
    assert linker.session.loss.origin == origin != "auto"
    assert pickle.loads(pickle.dumps(linker)).session.loss.origin == origin
    linker.initialize(lambda: examples, nlp=nlp)
    assert linker.begin_training().loss.origin == "auto"


def test_negatives_are_refreshed_once_an_epoch(pipeline, monkeypatch):
    nlp, linker, _, _ = pipeline
    refreshed = []
    monkeypatch.setattr(linker, "refresh_negatives", lambda sample: refreshed.append(step))
    callback = RefreshNegatives()
    for step, epoch in enumerate([0, 0, 0, 1, 1, 2]):
        callback(nlp, {"step": step, "epoch": epoch})
    assert refreshed == [0, 3, 5]
    nlp.config["training"]["frozen_components"] = ["pel_linker"]
    callback(nlp, {"step": 6, "epoch": 3})
    assert refreshed == [0, 3, 5]


def test_negatives_are_refreshed_every_so_many_steps(pipeline, monkeypatch):
    nlp, linker, _, _ = pipeline
    refreshed = []
    monkeypatch.setattr(linker, "refresh_negatives", lambda sample: refreshed.append(step))
    callback = RefreshNegatives(every=3)
    for step, epoch in enumerate([0, 0, 0, 1, 1, 2, 2, 2]):
        callback(nlp, {"step": step, "epoch": epoch})
    assert refreshed == [0, 3, 6]


def pipeline_of(refresh_negatives):
    """One whose linker does that when it is to refresh its negatives."""
    pipe = SimpleNamespace(refresh_negatives=refresh_negatives)
    return SimpleNamespace(config={"training": {"frozen_components": []}}, pipeline=[("pel_linker", pipe)])


def steps_of(every, n=40):
    """The steps at which negatives are refreshed."""
    refreshed = []
    nlp = pipeline_of(lambda sample: refreshed.append(step))
    callback = registry.resolve({"block": {"@callbacks": "spacy_pel.refresh_negatives.v1", "every": every}})["block"]
    for step in range(n):
        callback(nlp, {"step": step, "epoch": 0})
    return refreshed


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (15, [0, 15, 30]),
        ([0], [0]),
        ([0, 5, 12, 30], [0, 5, 12, 30]),
        ([5, 12, 99], [0, 5, 12]),  # the first step always
        ({"@schedules": "compounding.v1", "start": 3, "stop": 12, "compound": 2.0}, [0, 3, 9, 21, 33]),
        ({"@schedules": "constant.v1", "rate": 18}, [0, 18, 36]),
    ],
    ids=str,
)
def test_negatives_are_refreshed_by_a_schedule(every, expected):
    assert steps_of(every) == expected


@pytest.mark.parametrize(("max_steps", "expected"), [(6, [0, 3]), (7, [0, 3, 6]), (0, [0, 3, 6, 9])])
def test_the_last_step_has_no_refresh(pipeline, monkeypatch, max_steps, expected):
    """spaCy runs steps 0 to max_steps, and a schedule over max_steps ends at a rate of 0."""
    nlp, linker, _, _ = pipeline
    refreshed = []
    monkeypatch.setattr(linker, "refresh_negatives", lambda sample: refreshed.append(step))
    nlp.config["vars"] = {"steps": max_steps}
    nlp.config["training"]["max_steps"] = "${vars.steps}"
    callback = RefreshNegatives(every=3)
    for step in range(max_steps + 1 if max_steps else 10):
        callback(nlp, {"step": step, "epoch": 0})
    assert refreshed == expected


def test_a_training_that_starts_again_has_the_list_again():
    callback, refreshed = RefreshNegatives(every=[0, 2]), []
    nlp = pipeline_of(lambda sample: refreshed.append(step))
    for step in [0, 1, 2, 3, 0, 1, 2]:
        callback(nlp, {"step": step, "epoch": 0})
    assert refreshed == [0, 2, 0, 2]


@pytest.mark.parametrize("every", ["hour", 0, [], [3, 3], [5, 2], [-1], [True, 4], [1.5]], ids=str)
def test_another_rhythm_is_refused(every):
    with pytest.raises(PelError, match=re.escape(f"[training.before_update]: every = {every!r}")):
        RefreshNegatives(every=every)


@pytest.mark.parametrize("sample", [-1, [9, -1], [0.5], "all"], ids=str)
def test_another_sample_is_refused(sample):
    with pytest.raises(PelError, match=re.escape("[training.before_update]: sample = ")):
        RefreshNegatives(sample=sample)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [(0, [0, 0, 0]), (7, [7, 7, 7]), ([9, 0], [9, 0, 0]), ([9, 8, 7, 6], [9, 8, 7]), ([], [0] * 3)],
)
def test_samples_of_the_refreshes(sample, expected):
    callback, taken = RefreshNegatives(every=[0, 2, 3], sample=sample), []
    nlp = pipeline_of(taken.append)
    for _ in range(2):  # a training that starts again begins with the first
        for step in range(5):
            callback(nlp, {"step": step, "epoch": 0})
    assert taken == expected * 2


def test_a_schedule_that_stands_still_is_refused_when_it_does():
    with pytest.raises(PelError, match=r"every = 0.5; the schedule gives the steps to the next refresh"):
        steps_of({"@schedules": "constant.v1", "rate": 0.5})


def test_a_terminal_shows_what_goes_on_before_the_first_scores(pipeline, monkeypatch):
    class Screen(io.StringIO):
        tty = True

        def isatty(self):
            return self.tty

    nlp, linker, examples, optimizer = pipeline
    screen, log = Screen(), Screen()
    log.tty = False
    monkeypatch.setattr("sys.stderr", screen)
    train(nlp, examples, optimizer, 1)
    shown = screen.getvalue()
    assert all(f"{what} entities:   0%|          | 0.00/12.0" in shown for what in ("Reading", "Encoding"))
    LinkScorer()(examples, linker=linker)
    assert "Linking:   0%|" in screen.getvalue()[len(shown) :]
    assert screen.getvalue().endswith("\r")  # the bars are gone
    monkeypatch.setattr("sys.stderr", log)
    linker.refresh_negatives()
    LinkScorer(kb_sample=3)(examples, linker=linker)
    assert not log.getvalue()


def test_random_negatives_need_no_pass_over_the_kb(tmp_path):
    nlp, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 4},
    )
    linker.refresh_negatives()
    nlp.update(examples)
    assert linker.session.live.index is None


@pytest.fixture
def encoded(monkeypatch):
    """How many entities are encoded, pass by pass."""
    counts = []
    monkeypatch.setattr(
        "spacy_pel.search.live.encode_entity_rows",
        lambda model, rows: counts.append(len(rows)) or encode_entity_rows(model, rows),
    )
    return counts


def test_scores_are_of_vectors_at_most_one_update_old(pipeline, encoded):
    nlp, linker, examples, optimizer = pipeline
    linker.refresh_negatives()
    live = linker.session.live
    first = live.index
    train(nlp, examples, optimizer, 1)
    live.search()
    assert encoded == [12]
    train(nlp, examples, optimizer, 1)
    search = live.search()
    assert encoded == [12, 12] and live.index is first  # which negatives are drawn from
    vectors = encode_entity_rows(linker.model, live.token_rows)
    found = search(Queries([""] * 12, vectors), 1)
    assert found.rows.tolist() == list(range(len(linker.kb)))
    np.testing.assert_allclose(found.scores, 1.0, atol=1e-5)
    live.search()
    linker.refresh_negatives()  # nothing is encoded again under the same weights
    assert encoded == [12, 12] and live.index is not first
    train(nlp, examples, optimizer, 2)
    live.search()
    train(nlp, examples, optimizer, 1)
    linker.refresh_negatives()
    assert encoded == [12] * 4


@pytest.mark.parametrize("sample", [0, 6])
def test_scores_change_nothing_of_a_training(tmp_path, sample):
    """Hard negatives stay those of the refresh at the first step, with evaluations between the steps or without."""
    settings = {"layout": "per_mention", "negatives": {"@misc": "spacy_pel.HardNegatives.v1", "n": 2}}
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    losses = {}
    for scored in (False, True):
        nlp, linker, examples, optimizer = make_pipeline(encoder, kb, **settings)
        linker.refresh_negatives(sample)
        index = linker.session.live.index
        losses[scored] = []
        for _ in range(6):
            losses[scored] += train(nlp, examples, optimizer, 1)
            if scored:
                LinkScorer()(examples, linker=linker)
        assert linker.session.live.index is index
    assert losses[True] == pytest.approx(losses[False], rel=1e-4)


def test_what_scores_have_encoded_is_freed_before_the_next_update(pipeline):
    nlp, linker, examples, optimizer = pipeline
    train(nlp, examples, optimizer, 2)
    linker.session.live.search()
    scored = weakref.ref(linker.session.live._spare)
    assert scored() is not linker.session.live.index
    linker.update(examples)
    assert scored() is None


def test_a_training_that_learns_nothing_says_so_once(pipeline):
    nlp, linker, examples, optimizer = pipeline
    nothing = [Example(nlp.make_doc("Nothing."), nlp.make_doc("Nothing."))]
    with pytest.warns(UserWarning) as warned:
        train(nlp, nothing, optimizer, 120)
    (told,) = warned
    assert str(told.message).startswith("pel_linker has learnt nothing in its first 50 updates: ")
    linker.session = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(nlp, nothing, optimizer, 49)
        train(nlp, examples, optimizer, 1)
        train(nlp, nothing, optimizer, 60)


def test_a_learn_rate_that_stays_0_is_told_once(pipeline):
    nlp, linker, examples, _ = pipeline
    linker.objective = replace(linker.objective, negatives=RandomNegatives(4))
    optimizer = AdamW(make_warmup_linear(1e-3, 1000))
    with pytest.warns(UserWarning) as warned:
        train(nlp, examples[:1], optimizer, 12)
    (told,) = warned
    assert "the learn rate of the optimizer is 0" in str(told.message) and "step_schedules()" in str(told.message)
    linker.session = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            train(nlp, examples[:1], optimizer, 1)
            optimizer.step_schedules()
        linker.session = None
        optimizer.learn_rate = 0.0
        train(nlp, examples[:1], optimizer, 4)
        optimizer.learn_rate = 1e-3
        train(nlp, examples[:1], optimizer, 1)
        optimizer.learn_rate = 0.0  # as at the end of a schedule
        train(nlp, examples[:1], optimizer, 6)


def test_hard_negatives_that_nothing_refreshes_are_told_once(pipeline):
    nlp, linker, examples, optimizer = pipeline
    with pytest.warns(UserWarning) as warned:
        train(nlp, examples[:1], optimizer, 110)
    (told,) = warned
    assert str(told.message).startswith("The hard negatives are 50 updates old")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.session = None
        linker.refresh_negatives()
        train(nlp, examples[:1], optimizer, 60)
        for settled in ({"p": 0}, {"rescored": 4}):
            linker.objective = replace(linker.objective, negatives=replace(linker.objective.negatives, **settled))
            linker.session = None
            train(nlp, examples[:1], optimizer, 60)


def test_gradients_of_two_batches_add_up(tmp_path):
    """Without an optimizer step between them, as spaCy's accumulate_gradient has it. Negatives: all of the KB."""
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
    )
    weights = dict(tower_module(linker.model.get_ref("mention_tower")).named_parameters())
    mentions = [mention for example in examples for mention in gold_mentions(example.reference)]

    def gradients(*batches):
        for weight in weights.values():
            weight.grad = None
        for batch in batches:
            linker.begin_training().accumulate(batch)
        return {name: weight.grad.clone() for name, weight in weights.items() if weight.grad is not None}

    first, second, both = gradients(mentions[:6]), gradients(mentions[6:]), gradients(mentions[:6], mentions[6:])
    assert len(both) > 30 and any(gradient.abs().sum() > 0 for gradient in both.values())
    for name, gradient in both.items():
        torch.testing.assert_close(gradient, first[name] + second[name], rtol=1e-4, atol=1e-5)


class Nothing:
    """An optimizer that leaves weights and gradients as they are."""

    max_gradient_norm = None

    def __call__(self, key, weights, gradient, *, lr_scale=1.0):
        return weights, gradient


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("where", ["before", "within"])
def test_a_batch_that_fails_leaves_nothing_in_the_next_update(tmp_path, monkeypatch, error, where):
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
        adversarial=None,
    )

    def update():
        linker.update(examples)
        linker.finish_update(Nothing())
        return linker.session.latest

    expected, real = update(), session.backpropagate

    def fails(*args):
        if where == "within":
            real(*args)
        raise error

    linker.update(examples[:1])  # a part of the update that fails, as with accumulate_gradient
    monkeypatch.setattr(session, "backpropagate", fails)
    with pytest.raises(type(error)):
        linker.update(examples)
    monkeypatch.setattr(session, "backpropagate", real)
    assert tuple(update()) == pytest.approx(tuple(expected), rel=1e-4)


def test_a_gradient_that_is_not_finite_does_not_stay(pipeline):
    nlp, linker, examples, optimizer = pipeline
    linker.update(examples)
    module = tower_module(linker.model.get_ref("mention_tower"))
    next(weight for weight in module.parameters() if weight.grad is not None).grad.fill_(np.nan)
    with pytest.raises(PelError, match="training has diverged"):
        linker.finish_update(optimizer)
    assert train(nlp, examples, optimizer, 1)[0] > 0 and np.isfinite(linker.session.latest.gradient_norm)


def test_the_same_concept_under_another_id_is_never_a_negative(tmp_path, monkeypatch):
    entities = [replace(e, xrefs=("D009203", "MSH:X")) if e.id == "D006333" else e for e in ENTITIES]
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb", entities),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
        layout="per_mention",
    )
    one, other = (linker.kb.rows([id_])[id_] for id_ in ("D009203", "D006333"))
    assert linker.kb.same_concepts().tolist() == [[other, one]]
    seen = []
    original = TrainingBatch.__init__
    monkeypatch.setattr(
        TrainingBatch, "__init__", lambda self, *args, **kw: seen.append(args) or original(self, *args, **kw)
    )
    linker.update(examples)
    ((rows, _, positives, negatives, *_),) = seen
    rows = rows.reshape(positives.shape)
    wrong_of = {gold: set(row[mask].tolist()) for gold, row, mask in zip(rows[:, 0].tolist(), rows, negatives)}
    everything = set(range(12))
    assert wrong_of[one] == wrong_of[other] == everything - {one, other}
    assert wrong_of[linker.kb.rows(["D001241"])["D001241"]] == everything - {0}


@pytest.mark.parametrize("layout", ["shared", "per_mention"])
def test_the_same_concept_as_a_correct_id_that_the_label_does_not_allow_is_no_negative(tmp_path, layout):
    changed = {"D009203": {"types": ("Procedure",)}, "D001281": {"xrefs": ("D009203",)}}
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb", [replace(e, **changed.get(e.id, {})) for e in ENTITIES]),
        [("Severe heart attack today .", {"heart attack": "D009203|D006333"})],
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
        layout=layout,
        types_by_label={"X": ["Disease"]},
    )
    linker.update(examples)
    batch = linker.session.latest_batch
    wrong, right = (
        set(linker.kb.ids(linker.kb.live_rows[batch.candidate_places()[which]]).tolist())
        for which in (batch.negatives, batch.positives)
    )
    diseases = {e.id for e in ENTITIES if e.types == ("Disease",)}
    assert right == {"D006333"} and wrong == diseases - {"D009203", "D006333", "D001281"}


@pytest.mark.parametrize("layout", ["shared", "per_mention"])
@pytest.mark.parametrize("sampler", ["RandomNegatives", "HardNegatives", "MixedNegatives"])
def test_negatives_are_of_the_types_that_the_label_allows(tmp_path, layout, sampler, monkeypatch):
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": f"spacy_pel.{sampler}.v1", "n": 4},
        layout=layout,
        types_by_label={"drug": ["Chemical"], "finding": ["Disease", "Sign"]},
    )
    type_of = [entity.types[0] for entity in ENTITIES]
    for example in examples:
        group = example.reference.spans[GOLD_GROUP]
        for i, span in enumerate(group):
            label = "drug" if linker.kb[span.kb_id_].types == ("Chemical",) else "finding"
            group[i] = Span(example.reference, span.start, span.end, label=label, kb_id=span.kb_id)
    batches = []
    original = TrainingBatch.__init__
    monkeypatch.setattr(
        TrainingBatch, "__init__", lambda self, *args, **kw: batches.append(args) or original(self, *args, **kw)
    )
    linker.update(examples)
    seen = [{type_of[place] for place in places.ravel()} for places, *_ in batches]
    assert {"Chemical"} in seen and {"Disease", "Sign"} in seen and len(seen) == 2
    assert all(negatives.sum(axis=1).min() >= 4 for _, _, _, negatives, *_ in batches)
    assert sum(len(gold) for _, gold, *_ in batches) == sum(len(e.reference.ents) for e in examples)


@pytest.mark.parametrize("settings", [{"layout": "shared"}, {"layout": "per_mention", "in_batch": True}], ids=str)
def test_entities_that_a_label_does_not_allow_are_neither_learnt_nor_negatives(tmp_path, settings):
    negatives = {"@misc": "spacy_pel.RandomNegatives.v1", "n": 2, "in_batch": settings.get("in_batch")}
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives=negatives,
        layout=settings["layout"],
        types_by_label={"X": ["Disease"]},
    )
    linker.update(examples)
    batch = linker.session.latest_batch
    golds = [span.kb_id_ for eg in examples for span in eg.reference.spans[GOLD_GROUP]]
    allowed = sum(linker.kb[id_].types == ("Disease",) for id_ in golds)
    assert 0 < allowed < len(golds) and len(batch.gold) == allowed
    assert {ENTITIES[place].types for place in batch.entity_places.tolist()} == {("Disease",)}


@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "shared"},
        {"negatives": {"@misc": "spacy_pel.RandomNegatives.v1", "n": 4}},
        {"negatives": {"@misc": "spacy_pel.RandomNegatives.v1", "n": 4, "replace": True, "in_batch": True}},
    ],
)
def test_nce_wants_independent_draws_of_each_mention(settings):
    nce = {
        "layout": "per_mention",
        "negatives": {"@misc": "spacy_pel.RandomNegatives.v1", "n": 4, "replace": True},
        "loss": {"@misc": "spacy_pel.NCELoss.v1"},
        "model": {"similarity": "dot"},
    }
    spacy.blank("en").add_pipe("pel_linker", config=make_config(**nce))
    with pytest.raises(PelError, match=r"spacy_pel.NCELoss.v1"):
        spacy.blank("en").add_pipe("pel_linker", config=make_config(**(nce | settings)))


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "NCELoss", "layout": "per_mention", "draw": "iid", "similarity": "dot"},
        {"loss": "ProxyLoss", "layout": "per_mention", "draw": "top", "in_batch": True, "similarity": "cosine"},
        {"loss": "ProxyLoss", "layout": "shared", "draw": "sample", "in_batch": False, "similarity": "cosine"},
    ],
    ids=str,
)
def test_it_learns(tmp_path, settings):
    negatives = {"@misc": "spacy_pel.MixedNegatives.v1", "n": 4, "draw": settings["draw"], "pool": 6}
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        loss={"@misc": f"spacy_pel.{settings['loss']}.v1"},
        layout=settings["layout"],
        negatives=negatives | {"in_batch": settings.get("in_batch")},
        model={"similarity": settings["similarity"]},
    )
    losses = train(nlp, examples, optimizer, 90)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    linker.index(progress=False)
    assert nlp.evaluate(examples)["nel_recall_at_1"] > 0.6


def test_an_origin_is_fitted_once_to_the_first_batch_before_it_is_learnt(tmp_path):
    config = {"loss": {"@misc": "spacy_pel.ProxyLoss.v1", "origin": "auto"}}
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, examples, optimizer = make_pipeline(encoder, kb, **config)
    first = train(nlp, examples, optimizer, 1)[0]
    origin = linker.session.loss.origin
    assert -1 < origin <= 1 and linker.objective.loss.origin == "auto"
    for other in (0.0, origin - 0.1):
        config["loss"]["origin"] = other
        nlp2, _, examples2, optimizer2 = make_pipeline(encoder, kb, **config)
        assert train(nlp2, examples2, optimizer2, 1)[0] > first
    train(nlp, examples, optimizer, 3)
    assert linker.session.loss.origin == origin


def test_an_origin_is_fitted_to_all_mentions_that_have_negatives(tmp_path):
    config = {"loss": {"@misc": "spacy_pel.ProxyLoss.v1", "origin": "auto"}}
    alone = next(one for one in ENTITIES if sum(other.types == one.types for other in ENTITIES) == 1)
    others = sorted({kind for one in ENTITIES for kind in one.types} - {*alone.types})
    types = {"alone": [*alone.types], "others": others}
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, examples, optimizer = make_pipeline(encoder, kb, **config, types_by_label=types)
    for example in examples:
        group = example.reference.spans[GOLD_GROUP]
        for i, span in enumerate(group):
            label = "alone" if span.kb_id_ == alone.id else "others"
            group[i] = Span(example.reference, span.start, span.end, label=label, kb_id=span.kb_id)
    with_alone = [eg for eg in examples if any(span.label_ == "alone" for span in eg.reference.spans[GOLD_GROUP])]
    only = Example(nlp.make_doc("cyanosis"), nlp.make_doc("cyanosis"))
    only.reference.spans[GOLD_GROUP] = [Span(only.reference, 0, 1, label="alone", kb_id=alone.id)]
    assert np.isfinite(train(nlp, [only], optimizer, 1)[0]) and linker.session.loss.origin == "auto"
    train(nlp, [only, *with_alone, *examples], optimizer, 1)
    assert -0.5 < linker.session.loss.origin <= 1


def test_a_search_over_some_rows_encodes_those_alone(pipeline, encoded):
    _, linker, examples, _ = pipeline
    assert linker.session is None
    linker.update(examples)
    live = linker.session.live
    encoded.clear()
    some = np.array([2, 5, 11])
    search = live.search_over(some)
    queries = encode_entity_rows(linker.model, live.token_rows)
    found = search(Queries([""] * 12, queries), 2).first(2)
    scores, rows = found.scores.reshape(12, 2), found.rows.reshape(12, 2)
    assert encoded == [3]
    exact = queries @ queries[some].T
    order = np.argsort(-exact, axis=1)[:, :2]
    assert rows.tolist() == some[order].tolist()
    np.testing.assert_allclose(scores, np.take_along_axis(exact, order, axis=1), atol=1e-5)
    within = search(Queries([""] * 12, queries), 2, np.array([5, 6]))
    assert within.counts.tolist() == [1] * 12 and within.first(1).rows.tolist() == [5] * 12


def test_dev_scores_over_a_part_of_the_kb(pipeline):
    _, linker, examples, _ = pipeline
    linker.update(examples)
    asked = []
    live = linker.session.live
    original = live.search_over
    live.search_over = lambda rows: asked.append(rows.tolist()) or original(rows)
    gold = set(linker.kb.rows({m.ids[0] for eg in examples[:2] for m in gold_mentions(eg.reference)}).values())
    draws = ((1, 0), (1, 1), (1, 2), (1, 0), (99, 0))
    some, _, _, again, whole = (LinkScorer(n, seed)(examples[:2], linker=linker) for n, seed in draws)
    assert [len(rows) for rows in asked] == [5, 5, 5, 5, 12]  # 4 gold entities and 1 more; all
    assert asked[0] == asked[3] and all(gold < set(rows) for rows in asked)
    assert len({tuple(rows) for rows in asked[:3]}) > 1
    assert some == again and whole == LinkScorer()(examples[:2], linker=linker)
    assert some["nel_recall_at_1"] >= whole["nel_recall_at_1"]


@pytest.mark.parametrize("layout", ["shared", "per_mention"])
@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("n_entities", [1, 12])
def test_a_batch_of_one_mention(tmp_path, layout, in_batch, n_entities):
    """Also in a KB that has its entity only, so that there is no negative at all."""
    entities = [e for e in ENTITIES if n_entities > 1 or e.id == "D001241"]
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb", entities),
        layout=layout,
        negatives={"@misc": "spacy_pel.MixedNegatives.v1", "n": 4, "in_batch": in_batch},
    )
    doc = examples[0].reference
    doc.spans["gold_mentions"] = [span for span in doc.spans["gold_mentions"] if span.kb_id_ == "D001241"]
    losses = [nlp.update(examples[:1], sgd=optimizer, losses={})["pel_linker"] for _ in range(5)]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert np.isfinite(linker.session.latest.gradient_norm)


def test_without_context_the_same_form_has_one_answer(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), model={"context": 0}
    )
    train(nlp, examples, optimizer, 10)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "saved")
    for pipeline in (nlp, spacy.load(tmp_path / "saved")):
        docs = [pipeline.make_doc(text) for text in ("She took aspirin .", "No aspirin after the heart attack")]
        for doc in docs:
            doc.ents = [doc.char_span(doc.text.index("aspirin"), doc.text.index("aspirin") + 7, label="X")]
        one, other = (doc.ents[0]._.kb_ents for doc in map(pipeline, docs))
        assert one == other and len(one) == 5


def hard_negatives(linker, examples, sample):
    """The places of the hard negatives that an update is trained against, and of all that could have been."""
    linker.refresh_negatives(sample)
    linker.update(examples)
    draw = linker.session.latest_draw
    _, places = linker.session.live.find(draw.queries, len(linker.kb))
    return {*draw.part.places_of(draw.hard).ravel().tolist()} - {-1}, {*places.ravel().tolist()} - {-1}


def test_hard_negatives_of_a_sample_are_of_it_alone(tmp_path):
    hard = {"@misc": "spacy_pel.HardNegatives.v1", "n": 2}
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), negatives=hard
    )
    drawn = [hard_negatives(linker, examples, 5) for _ in range(6)]
    assert all(len(sample) == 5 and found and found <= sample for found, sample in drawn)
    assert len({frozenset(sample) for _, sample in drawn}) > 1
    assert len(hard_negatives(linker, examples, len(linker.kb))[1]) == len(linker.kb)


def test_a_sample_and_types_are_both_kept_to(tmp_path):
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.HardNegatives.v1", "n": 2},
        types_by_label={"X": ["Disease"]},
    )
    found, sample = hard_negatives(linker, examples, 8)
    live = linker.session.live
    allowed = live.places_of(linker.kb.rows_allowed(linker.settings.allowed_for("X"))).tolist()
    assert found and found <= sample & {*allowed}


@pytest.mark.parametrize(("draw", "rescored"), [("top", 0), ("top", 4), ("sample", 4), ("iid", 0)])
def test_a_sample_without_an_entity_of_the_type_has_no_hard_negatives(tmp_path, draw, rescored):
    hard = {"@misc": "spacy_pel.HardNegatives.v1", "n": 2, "draw": draw, "pool": 4, "rescored": rescored}
    _, linker, examples, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives=hard,
        layout="per_mention",
        types_by_label={"X": ["Chemical"]},
    )
    live = linker.begin_training().live
    chemicals = live.places_of(linker.kb.rows_allowed(linker.settings.allowed_for("X")))
    live.refresh(np.setdiff1d(np.arange(len(live)), chemicals))
    assert linker.update(examples)["pel_linker"] > 0
    batch = linker.session.latest_batch
    wrong = batch.entity_places.reshape(batch.negatives.shape)[batch.negatives]
    assert len(wrong) and {*wrong.tolist()} <= {*chemicals.tolist()}


@pytest.mark.parametrize("sample", [0, 8])
def test_what_a_label_allows_is_looked_up_once(tmp_path, sample, monkeypatch):
    """Of a large KB that takes longer than a step."""
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), types_by_label={"X": ["Disease"]}
    )
    linker.refresh_negatives(sample)
    asked, search = [], linker.session.live.index.search
    monkeypatch.setattr(
        linker.session.live.index, "search", lambda *args, within: asked.append(within) or search(*args, within=within)
    )
    train(nlp, examples, optimizer, 3)
    assert len(asked) == 3 and all(within is asked[0] for within in asked)  # by which what was made of it is found


def test_which_are_among_others():
    ascending = np.array([2, 3, 7])
    assert is_among(np.array([7, 1, 3, 3, 9]), ascending).tolist() == [True, False, True, True, False]
    assert is_among(ascending, ascending[:0]).tolist() == [False] * 3 and not len(is_among(ascending[:0], ascending))


@pytest.mark.parametrize("settings", [{}, {"types_by_label": {"X": ["Chemical", "Disease", "Sign"]}}], ids=str)
@pytest.mark.parametrize("kb_sample", [0, 5])
def test_a_kb_that_grows_while_it_is_trained_with(tmp_path, settings, kb_sample):
    """By another process: the new entity is trained with after the next start."""
    kb = make_kb(tmp_path / "kb")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb, **settings)
    linker.begin_training()
    KnowledgeBase(tmp_path / "kb").add([Entity("NEW", "aspirin", (), ("Chemical",))])
    doc = examples[0].reference
    first, *others = doc.spans[GOLD_GROUP]
    doc.spans[GOLD_GROUP] = [Span(doc, first.start, first.end, label="X", kb_id="NEW"), *others]
    assert np.isfinite(train(nlp, examples, optimizer, 3)).all()
    assert 12 not in linker.session.latest_batch.entity_places
    assert 0 <= LinkScorer(kb_sample)(examples, linker=linker)["nel_recall_at_1"] <= 1
    linker.session = None
    train(nlp, examples, optimizer, 1)
    assert 12 in linker.session.latest_batch.entity_places


def test_scores_over_the_kb_are_of_all_of_it_after_a_sample(pipeline):
    _, linker, *_ = pipeline
    linker.refresh_negatives(3)
    live = linker.session.live
    queries = Queries([""] * len(linker.kb), encode_entity_rows(linker.model, live.token_rows))
    assert live.search()(queries, 1, None).rows.tolist() == linker.kb.live_rows.tolist()
