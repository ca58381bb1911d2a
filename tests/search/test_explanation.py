"""`linker.explain`: what it says must be what the linker does."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import spacy
import srsly
from tiny import make_examples, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.search.evidence import EVIDENCE
from spacy_pel.search.weights import NameWeights
from spacy_pel.tuning.calibration import Calibration
from spacy_pel.tuning.decision import Decision, Logistic
from spacy_pel.tuning.tuned import Tuned, TuningContext


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 60)
    linker.index(progress=False)
    return nlp, linker, folder


@pytest.fixture
def mention(linked):
    nlp, linker, _ = linked
    linker.tuned = Tuned()
    linker.types, linker.labels_discard = [], []
    doc = nlp.make_doc("She took aspirin after the heart attack .")
    doc.ents = [doc.char_span(9, 16, label="DRUG")]
    return doc


def test_a_link(linked, mention):
    nlp, linker, _ = linked
    (ent,) = nlp(mention).ents
    told = linker.explain(ent, 3)
    assert told.kb_id == ent.kb_id_ and [tuple(c[::2]) for c in told.candidates] == ent._.kb_ents[:3]
    assert [c.name for c in told.candidates] == [linker.kb[c.id].name for c in told.candidates]
    assert told.reason == "there is no NIL threshold, so the best candidate is taken"
    assert (told.threshold, told.probability, told.filtered) == (None, None, [])
    assert str(told).startswith(f"aspirin → {ent.kb_id_}: there is no") and len(str(told).splitlines()) == 4


@pytest.mark.parametrize(("above", "relation"), [(0.01, "is under"), (-0.01, "reaches")])
def test_the_threshold_and_the_probability(linked, mention, above, relation):
    nlp, linker, _ = linked
    best = linker.rank([mention.ents[0]], 1)[0][0][1]
    linker.tuned = Tuned(nil_threshold=best + above, calibration=Calibration(0.0, 0.0))
    (ent,) = nlp(mention).ents
    told = linker.explain(ent)
    assert told.kb_id == ent.kb_id_ and ent._.is_nil == (above > 0)
    assert f"{best:.3f}, {relation} the NIL threshold of {best + above:.3f}" in told.reason
    assert told.probability == ent._.kb_prob == 0.5
    assert ("its best candidate is right" if above > 0 else "(right") + " with probability 0.50" in str(told)
    with pytest.raises(PelError, match="at least one"):
        linker.explain(ent, 0)


@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_a_decision(linked, mention, threshold):
    """It sees all that was found, however few candidates are kept, and goes with the pipeline."""
    nlp, linker, folder = linked
    said = linker.find([mention.ents[0]], 1)[0].evidence
    only = np.eye(len(EVIDENCE))[EVIDENCE.index("lead over the mean of ten")]
    none, ones = np.zeros((len(EVIDENCE), len(EVIDENCE))), np.ones(len(EVIDENCE))
    held = ones, -4 * ones, 4 * ones, only, none
    decision = Decision(Logistic(said - 2, *held, -1.7), Logistic(said, *held, -0.4))
    linker.tuned = Tuned(nil_threshold=threshold, decision=decision)
    nlp.to_disk(folder / f"decides-{threshold}")
    for own in (nlp, spacy.load(folder / f"decides-{threshold}")):
        (ent,) = own(mention.copy()).ents
        told = own.get_pipe("pel_linker").explain(ent, 2)
        assert told.confidence == pytest.approx(0.574443) and told.probability == pytest.approx(0.401312)
        assert ent._.kb_prob == told.probability and ent._.is_nil == (threshold == 0.8) == (told.kb_id == "NIL")
        relation = "is under" if threshold == 0.8 else "reaches"
        assert (
            told.reason == f"the probability that the KB has it, 0.574, {relation} the NIL threshold of {threshold:.3f}"
        )
        assert "most evidence, in log-odds: " in str(told) and len(told.evidence) == 3
    linker.nil_threshold = -0.99  # of the score
    told = linker.explain(mention.ents[0])
    linker.nil_threshold = "tuned"
    assert told.confidence is None and told.evidence == [] and "the best score" in told.reason
    assert told.probability == pytest.approx(0.401312)


def test_what_a_filter_took_away(linked, mention):
    nlp, linker, _ = linked
    free = linker.rank([mention.ents[0]], 12)[0]
    best_kind = linker.kb[free[0][0]].types[0]
    linker.types = sorted({"Chemical", "Disease", "Sign"} - {best_kind})
    (ent,) = nlp(mention).ents
    told = linker.explain(ent, 3)
    assert ent.kb_id_ == told.candidates[0].id != free[0][0]
    above = [id_ for id_, score in free[:3] if best_kind in linker.kb[id_].types and score >= told.candidates[-1].score]
    assert [c.id for c in told.filtered] == above and above[0] == free[0][0]
    assert "the settings do not allow it" in str(told) and "would reach" not in told.reason
    linker.nil_threshold = free[0][1] - 1e-4
    told = linker.explain(ent, 3)
    linker.nil_threshold = "tuned"
    assert told.kb_id == "NIL"
    assert f"{free[0][0]} would reach it, with {free[0][1]:.3f}, but the settings do not" in told.reason


def test_without_candidates(linked, mention):
    nlp, linker, _ = linked
    linker.labels_discard = ["DRUG"]
    (ent,) = nlp(mention).ents
    told = linker.explain(ent)
    assert told.kb_id == ent.kb_id_ == "NIL" and told.reason == 'the label "DRUG" is in labels_discard'
    assert ent._.kb_prob is None
    linker.labels_discard = []
    doc = spacy.tokens.Doc(nlp.vocab, words=["a", "\u200b"])
    doc.ents = [spacy.tokens.Span(doc, 1, 2, label="X")]
    (ent,) = nlp(doc).ents
    told = linker.explain(ent)
    assert told.kb_id == ent.kb_id_ == "NIL" and told.candidates == []
    assert told.reason.startswith("it has no candidate")


def test_what_was_tuned_is_saved_and_forgotten(linked, mention):
    nlp, linker, folder = linked
    linker.tuned = Tuned(nil_threshold=0.1, calibration=Calibration(3.0, -1.0))
    nlp.to_disk(folder / "saved")
    read = spacy.load(folder / "saved")
    (ent,) = read(mention).ents
    assert read.get_pipe("pel_linker").tuned.calibration == (3.0, -1.0) and 0 < ent._.kb_prob < 1
    read.update(make_examples(read), sgd=read.create_optimizer())
    assert read.get_pipe("pel_linker").tuned == Tuned() and read.get_pipe("pel_linker").threshold is None


def test_a_kb_that_the_threshold_was_not_tuned_with(linked, tmp_path):
    _, linker, _ = linked
    own, other = linker.kb, make_kb(tmp_path / "other")
    linker.tuned = Tuned(nil_threshold=0.1, context=TuningContext.of_linker(linker, linker.name_weights))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.set_kb(own.copy_to(tmp_path / "copy"))
    named = rf"tuned with the KB {own.path} \(12 entities, build \w+\), and it now has the KB {other.path} \(12 entit"
    with pytest.warns(UserWarning, match=named):
        linker.set_kb(other)
    shrunk = own.copy_to(tmp_path / "shrunk")
    shrunk.remove([next(iter(shrunk))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.set_kb(shrunk)
    shrunk.remove([next(iter(shrunk))])  # two of twelve: more than a tenth
    named = rf"tuned when its KB had 12 entities, and it now has the KB {shrunk.path} \(10 entities"
    with pytest.warns(UserWarning, match=named):
        linker.set_kb(shrunk)
    linker.tuned = Tuned()
    linker.set_kb(own)


def test_where_a_kb_was_is_not_written_and_not_said_of_one_that_is_read(linked, tmp_path):
    nlp, linker, _ = linked
    own, weights = linker.kb, NameWeights(0.25, 0.5)
    context = TuningContext.of_linker(linker, weights)
    linker.tuned = Tuned(weights, 0.1, context=context, names_context=context)
    nlp.to_disk(tmp_path / "saved")
    linker.tuned = Tuned()
    cfg = tmp_path / "saved" / "pel_linker" / "cfg"
    assert str(own.path) not in cfg.read_text()
    stored = srsly.read_json(cfg)
    del stored["saved"]
    for key in ("tuned_with", "lexical_tuned_with"):  # as older pipelines have it
        stored[key]["path"] = "/home/author/kb"
    srsly.write_json(cfg, stored)
    read = spacy.load(tmp_path / "saved").get_pipe("pel_linker")
    assert "/home/author" not in json.dumps(read.tuned.to_dict())
    with pytest.warns(UserWarning) as said:
        read.set_kb(make_kb(tmp_path / "other"))
    messages = "\n".join(str(warning.message) for warning in said)
    assert "fitted for a KB (12 entities, build " in messages and "tuned with a KB (12 entities, build " in messages
    assert "/home/author" not in messages and str(own.path) not in messages


def test_scores_that_the_threshold_was_not_tuned_for(linked):
    nlp, linker, folder = linked
    weights = NameWeights(0.25, 0.5)
    linker.tuned = Tuned(weights, 0.1, context=TuningContext.of_linker(linker, weights))
    nlp.to_disk(folder / "with_names")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spacy.load(folder / "with_names")
        linker.lexical = weights.as_setting()
    named = r"scores with lexical = {'ngram': 0.25, 'exact': 0.5}, and they are now with None"
    with pytest.warns(UserWarning, match=named):
        linker.lexical = None
    with pytest.warns(UserWarning, match=named):
        spacy.load(folder / "with_names", config={"components.pel_linker.lexical": None})
    linker.tuned = Tuned()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.lexical = "tuned"


@pytest.mark.parametrize("threshold", [1.5, -2])
def test_a_threshold_that_is_no_score(threshold):
    with pytest.raises(PelError, match=rf"nil_threshold = {threshold} is not a score"):
        spacy.blank("en").add_pipe("pel_linker", config={"nil_threshold": threshold})
    linker = spacy.blank("en").add_pipe("pel_linker")
    for value in (threshold, float("nan"), "foo", True):
        with pytest.raises(PelError, match="is not a score"):
            linker.nil_threshold = value
    assert linker.nil_threshold == "tuned"
    dot = {"model": {"@architectures": "spacy_pel.BiEncoder.v1", "similarity": "dot"}}
    loss = {"loss": {"@misc": "spacy_pel.CrossEntropyLoss.v1"}}
    spacy.blank("en").add_pipe("pel_linker", config={"nil_threshold": threshold, **dot, **loss})
