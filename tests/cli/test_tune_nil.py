"""`spacy pel tune-nil` with a linker that looks mentions up, in a folder laid out like a pipeline."""

import json

import pytest
import spacy
from lookup_linker import LookupLinker, documents, make_doc, sayer
from on_disk import contents
from typer.testing import CliRunner

from spacy_pel.cli import pel_app, tune_nil
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.tuning.calibration import Calibration

FOUND = {"lithium": [("D1", 0.9)], "flutter": [("D2", 0.7)], "newborn": [("D1", 0.3)]}


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "linker"
    spacy.blank("en").to_disk(path)
    (path / "pel_linker").mkdir()
    (path / "pel_linker" / "cfg").write_text('{"other": 1}')
    return path


@pytest.fixture
def run(monkeypatch, tmp_path, pipeline):
    def run_with(linker, *mentions, docs=(), options=()):
        linker.cfg = {"other": 1}
        monkeypatch.setattr(tune_nil, "load_linker", lambda path, **_: (spacy.load(path), "pel_linker", linker))
        write_docs(tmp_path / "dev.spacy", docs or [make_doc(*mentions)])
        return CliRunner().invoke(pel_app, ["tune-nil", str(pipeline), str(tmp_path / "dev.spacy"), *options])

    return run_with


MENTIONS = ("lithium", "D1"), ("flutter", "D2"), ("newborn", "NIL"), ("newborn", "")


def test_it_writes_the_threshold_and_nothing_else(run, pipeline):
    before = contents(pipeline)
    linker = LookupLinker(FOUND, {"D1", "D2"})
    result = run(linker, *MENTIONS)
    assert result.exit_code == 0, result.output
    after = contents(pipeline)
    cfg = "pel_linker/cfg"
    written = json.loads(after.pop(cfg))
    calibration = Calibration(*written.pop("calibration"))
    tuned_with = {
        "build": "b1",
        "entities": 2,
        "lexical": None,
        "vectors": "entity",
        "precision": "float",
        "top_k": 16,
    }
    assert written.pop("tuned_with") == tuned_with
    assert written == {"other": 1, "nil_threshold": pytest.approx(0.5)}
    assert calibration.probability(0.9) > 0.5 > calibration.probability(0.3)
    del before[cfg]
    assert after == before
    assert linker.calls == [(3, 1)]
    assert "not in force" not in result.output


@pytest.mark.parametrize(("setting", "named"), [(0.25, "0.25"), (None, "null")])
def test_it_says_when_the_setting_wins(run, setting, named):
    result = run(LookupLinker(FOUND, {"D1", "D2"}, nil_threshold=setting), *MENTIONS)
    assert result.exit_code == 0
    assert f"nil_threshold = {named} wins" in " ".join(result.output.split())


def test_too_few_that_cost_right_answers_are_not_kept_but_by_force(run, pipeline):
    """One threshold for a NIL mention with a high score would take three right links with it."""
    found = {"lithium": [("D1", 0.4)], "flutter": [("D2", 0.5)], "tremor": [("D1", 0.6)], "newborn": [("D1", 0.9)]}
    mentions = [("lithium", "D1"), ("flutter", "D2"), ("tremor", "D1"), ("newborn", "NIL")]
    before = contents(pipeline)
    result = run(LookupLinker(found, {"D1", "D2"}), *mentions)
    assert result.exit_code == 0 and contents(pipeline) == before
    said = " ".join(result.output.split())
    assert "too few for a NIL threshold" in said and "25% of these mentions are right, without one 75%" in said
    assert run(LookupLinker(found, {"D1", "D2"}), *mentions, options=["--force"]).exit_code == 0
    assert contents(pipeline) != before


@pytest.mark.parametrize("options", [(), ("--by-score",)], ids=["by all", "by score"])
def test_the_score_can_be_asked_to_decide_alone(run, pipeline, options):
    docs = documents(24)
    result = run(sayer(docs), docs=docs, options=options)
    assert result.exit_code == 0, result.output
    written = json.loads((pipeline / "pel_linker" / "cfg").read_text())
    assert ("decision" in written) is not bool(options) and "nil_threshold" in written
    assert f"of {tune_nil.HELD[not options]}" in " ".join(result.output.split())


def test_a_corpus_without_nil_is_refused_by_name(run, pipeline):
    before = contents(pipeline)
    result = run(LookupLinker(FOUND, {"D1", "D2"}), *MENTIONS[:2])
    assert result.exit_code == 1
    assert "dev.spacy: of 2 mentions 0 are NIL" in result.stderr
    assert contents(pipeline) == before


def test_a_target(run, pipeline):
    result = run(LookupLinker(FOUND, {"D1", "D2"}), *MENTIONS, options=["--target", "recall=1"])
    assert result.exit_code == 0, result.output
    assert "In the KB and linked right   1.0000 (without a threshold 1.0000)" in result.output
    assert json.loads((pipeline / "pel_linker" / "cfg").read_text())["nil_threshold"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("f1=0.9", "is neither precision=P nor recall=R"),
        ("precision", "is neither precision=P nor recall=R"),
        ("recall=1.1", "is neither precision=P nor recall=R"),
        ("precision=0.9", "no threshold gives the NIL class a precision of 0.9; the nearest is precision=0.5"),
    ],
)
def test_a_target_that_cannot_be_had(run, pipeline, target, message):
    before = contents(pipeline)
    mentions = ("newborn", "D1"), ("flutter", "NIL"), ("lithium", "D1")
    result = run(LookupLinker(FOUND, {"D1", "D2"}), *mentions, options=["--target", target])
    assert result.exit_code == 1 and message in " ".join(result.stderr.split())
    assert contents(pipeline) == before


def test_no_candidate_at_all_is_one_line(run, pipeline):
    before = contents(pipeline)
    result = run(LookupLinker({}, {"D1"}), ("lithium", "D1"), ("newborn", "NIL"))
    assert result.exit_code == 1 and "dev.spacy: no mention has a candidate" in " ".join(result.stderr.split())
    assert contents(pipeline) == before
