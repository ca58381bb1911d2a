"""What the commands do, from Python: tune names, tune NIL, evaluate."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from tiny import make_docs, make_kb, make_pipeline, train, write_encoder
from typer.testing import CliRunner

import spacy_pel
from spacy_pel import evaluate
from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import GOLD_GROUP, GoldMention
from spacy_pel.pipeline.tuning import find_for_gold, tune_to_kb
from spacy_pel.search.parts import EXACT, NGRAM, SIMILARITY
from spacy_pel.search.search import Found
from spacy_pel.search.weights import DEFAULT, NameWeights
from spacy_pel.tuning.name_weights import GoldFound


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuning")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 20)
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    docs = make_docs(nlp)
    docs[0].spans[GOLD_GROUP] = [Span(docs[0], s.start, s.end, kb_id="NIL") for s in docs[0].spans[GOLD_GROUP]]
    write_docs(folder / "dev.spacy", docs)
    return folder


def dev_docs(nlp, folder):
    return list(spacy.tokens.DocBin().from_disk(folder / "dev.spacy").get_docs(nlp.vocab))


def test_python_does_what_the_commands_do(pipeline, tmp_path):
    nlp = spacy.load(pipeline / "linker")
    nlp.to_disk(tmp_path / "linker")
    linker, docs = nlp.get_pipe("pel_linker"), dev_docs(nlp, pipeline)
    names = linker.tune_names(docs)
    nil = linker.tune_nil(docs, target="recall=0.5")
    measures = evaluate(nlp, docs, train=docs)
    output = "--output", tmp_path / "m.json"
    for command in (
        ["tune-lexical", tmp_path / "linker", pipeline / "dev.spacy"],
        ["tune-nil", tmp_path / "linker", pipeline / "dev.spacy", "--target", "recall=0.5"],
        ["evaluate", tmp_path / "linker", pipeline / "dev.spacy", "--train", pipeline / "dev.spacy", *output],
    ):
        result = CliRunner().invoke(pel_app, list(map(str, command)))
        assert result.exit_code == 0, result.output
    tuned = spacy.load(tmp_path / "linker").get_pipe("pel_linker").tuned
    assert linker.tuned.name_weights == names.weights and linker.threshold == nil.nil.threshold
    assert tuned.name_weights == pytest.approx(names.weights)
    assert tuned.nil_threshold == pytest.approx(nil.nil.threshold)
    assert tuned.calibration == pytest.approx(nil.calibration) and names.after["recall_at_1"] is not None
    written = json.loads((tmp_path / "m.json").read_text())
    assert written.pop("corpus") == str(pipeline / "dev.spacy")
    assert written.keys() == measures.keys() and len(written["nil_curve"]) == len(measures["nil_curve"])
    for key in written.keys() - {"mentions_per_second", "nil_curve", "reliability"}:
        assert written[key] == pytest.approx(measures[key], abs=1e-5), key


def test_what_cannot_be_measured_or_tuned(pipeline):
    nlp = spacy.load(pipeline / "linker")
    with pytest.raises(PelError, match="the corpus has no annotated mention"):
        evaluate(nlp, [nlp.make_doc("Nothing.")])
    with pytest.raises(PelError, match="must hold one pel_linker, and holds 0"):
        evaluate(spacy.blank("en"), make_docs(spacy.blank("en")))
    with pytest.raises(PelError, match="is neither precision=P nor recall=R"):
        nlp.get_pipe("pel_linker").tune_nil(make_docs(nlp), target="f1=1")


def test_what_is_never_searched_is_not_tuned_on(pipeline):
    nlp = spacy.load(pipeline / "linker")
    linker, docs = nlp.get_pipe("pel_linker"), dev_docs(nlp, pipeline)
    n_mentions = sum(len(doc.spans[GOLD_GROUP]) for doc in docs)
    docs[1].spans[GOLD_GROUP] = [
        Span(docs[1], span.start, span.end, label="Tissue", kb_id=span.kb_id_) for span in docs[1].spans[GOLD_GROUP]
    ]
    n_discarded = len(docs[1].spans[GOLD_GROUP])
    assert linker.tune_nil(docs).nil.n_mentions == n_mentions == len(find_for_gold(linker, docs))
    linker.labels_discard = ["Tissue"]
    assert linker.tune_nil(docs).nil.n_mentions == n_mentions - n_discarded == len(find_for_gold(linker, docs))


def test_the_fit_sees_what_linking_chooses_from(pipeline):
    """An abbreviation by its long form, so that the first candidate under any weights is the one that is linked."""
    nlp = spacy.load(pipeline / "linker")
    linker = nlp.get_pipe("pel_linker")
    doc = nlp.make_doc("A heart attack ( HA ) came . Then HA again .")
    doc.ents = [doc.char_span(34, 36, label="X", kb_id="D009203")]
    doc.spans[GOLD_GROUP] = [doc.ents[0]]
    (gold,) = find_for_gold(linker, [doc])
    assert gold.found.read.text == "heart attack"
    for weights in (NameWeights(0.0, 0.0), NameWeights(0.5, 0.25), NameWeights(0.0, 5.0)):
        linker.lexical = weights.as_setting()
        ((best, score),) = linker.rank([doc.ents[0]], 1)[0]
        assert gold.ranked(weights).candidates[0] == (best, pytest.approx(score, abs=1e-6))


def test_candidates_are_ranked_by_the_weights():
    span = spacy.blank("en")("a")[0:1]
    parts = {SIMILARITY: np.float32([0.5, 0.1]), NGRAM: np.zeros(2, "f4"), EXACT: np.float32([0, 1])}
    mention = GoldFound(GoldMention(span, ("B",)), Found(["A", "B"], parts[SIMILARITY], parts, span))
    assert [id_ for id_, _ in mention.ranked(NameWeights(0, 0)).candidates] == ["A", "B"]
    assert [id_ for id_, _ in mention.ranked(NameWeights(0, 1)).candidates] == ["B", "A"]
    assert mention.right().tolist() == [False, True] and mention.features([NGRAM, EXACT]).shape == (2, 3)


def test_names_of_the_package_are_imported_when_they_are_asked_for():
    assert {"Entity", "KnowledgeBase", "PelLinker", "evaluate", "render_links"} <= set(spacy_pel.__all__)
    for name in set(spacy_pel.__all__) - {"__version__"}:
        assert getattr(spacy_pel, name).__name__ == name
    code = "import sys, spacy_pel; print({'torch', 'faiss', 'transformers', 'spacy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_a_setting_that_wins_over_what_was_tuned_is_named(pipeline):
    nlp = spacy.load(pipeline / "linker")
    linker, docs = nlp.get_pipe("pel_linker"), dev_docs(nlp, pipeline)
    linker.lexical, linker.nil_threshold = None, 0.25
    with pytest.warns(UserWarning, match=r"lexical = null wins.*linker\.lexical = \"tuned\"") as said:
        linker.tune_names(docs)
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match=r"\[components\.pel_linker\] nil_threshold = 0\.25 wins"):
        linker.tune_nil(docs)
    linker.lexical = linker.nil_threshold = "tuned"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.tune_names(docs)
        linker.tune_nil(docs)


def test_weights_of_another_kb_are_dropped_once_and_said(pipeline, tmp_path):
    nlp = spacy.load(pipeline / "linker")
    linker = nlp.get_pipe("pel_linker")
    weights = linker.tune_names(dev_docs(nlp, pipeline)).weights
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.set_kb(linker.kb.copy_to(tmp_path / "copy"))
        nlp.to_disk(tmp_path / "linker")
        assert spacy.load(tmp_path / "linker").get_pipe("pel_linker").name_weights == pytest.approx(weights)
    other = make_kb(tmp_path / "other")
    with pytest.warns(
        UserWarning, match="Dropped the weights of names of pel_linker: they were fitted for the KB"
    ) as said:
        linker.set_kb(other)
    assert len(said) == 1 and said[0].filename == __file__ and linker.name_weights == DEFAULT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.set_kb(make_kb(tmp_path / "third"))
    result = CliRunner().invoke(pel_app, ["index", *map(str, (tmp_path / "linker", other.path, tmp_path / "indexed"))])
    said = "".join(result.output.split())  # without the line breaks that a narrow terminal gets
    assert result.exit_code == 0 and said.count("Droppedtheweightsofnames") == 1, result.output
    assert f"itnowhastheKB{other.path}(" in said, "not the folder in which the pipeline was written"
    indexed = spacy.load(tmp_path / "indexed").get_pipe("pel_linker")
    assert indexed.tuned.name_weights is None and indexed.name_weights == DEFAULT


def test_weights_of_other_vectors_are_dropped(pipeline):
    nlp = spacy.load(pipeline / "linker")
    linker = nlp.get_pipe("pel_linker")
    linker.tune_names(dev_docs(nlp, pipeline))
    with pytest.warns(UserWarning, match='fitted for vectors = "entity", and it now has vectors = "names"'):
        linker.vectors = "names"
    assert linker.tuned.name_weights is None


def test_few_mentions_are_said_to_be_few(pipeline):
    nlp = spacy.load(pipeline / "linker")
    linker, docs = nlp.get_pipe("pel_linker"), dev_docs(nlp, pipeline)
    names, nil = linker.tune_names(docs), linker.tune_nil(docs)
    assert 0.4 < names.weights.ngram < 2.5 and 0.12 < names.weights.exact < 0.75
    assert "10 mentions in the KB are too few" in names.too_few and "2 NIL mentions are too few" in nil.too_few
    assert names.recall.low <= names.after["recall_at_1"] <= names.recall.high
    assert "tune to the names of the KB" in names.too_few and "tune to the names of the KB" in nil.too_few
    few = [tuned.too_few for tuned in (linker.tune_names(), linker.tune_nil(), *tune_to_kb(linker))]
    assert all(said.endswith(" or more.") for said in few), "names of the KB are what was tuned on"


def test_names_count_by_default_beside_dot_products_too(tmp_path):
    dot = {"loss": {"@misc": "spacy_pel.CrossEntropyLoss.v1"}, "model": {"similarity": "dot"}}
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), **dot)
    assert linker.name_weights == DEFAULT  # before it is indexed
    linker.index(progress=False)
    (vectors,) = (block for block in linker.kb.entity_index().blocks() if len(block))
    length = np.square(vectors).sum(axis=1).mean()
    assert linker.name_weights[:2] == pytest.approx((DEFAULT.ngram * length, DEFAULT.exact * length)) and length > 4
    doc = nlp.make_doc("heart attack")
    assert linker.rank([doc[0:2]], 1)[0][0][0] == "D009203"
    linker.lexical = None
    assert linker.name_weights is None
