"""`spacy pel evaluate` with a linker that looks mentions up."""

import json
import re
import sys

import pytest
import spacy
from commands import one_line
from lookup_linker import NLP, LookupLinker, make_doc
from spacy.tokens import Span
from typer.testing import CliRunner

from spacy_pel.cli import evaluate, pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.pipeline.settings import LinkSettings
from spacy_pel.tuning.calibration import Calibration
from spacy_pel.tuning.tuned import Tuned

FOUND = {"lithium": [("D1", 0.9)], "flutter": [("D3", 0.8), ("D2", 0.7)], "newborn": [("D1", 0.2)]}


@pytest.fixture
def linker(monkeypatch):
    linker = LookupLinker(FOUND, {"D1", "D2", "D3"}, threshold=0.5)
    monkeypatch.setattr(evaluate, "load_linker", lambda pipeline, **_: (NLP, "pel_linker", linker))
    return linker


@pytest.fixture
def dev(tmp_path):
    path = tmp_path / "dev.spacy"
    write_docs(path, [make_doc(("lithium", "D1"), ("flutter", "D2")), make_doc(("newborn", "D404"), ("other", ""))])
    return path


def run(*arguments):
    return CliRunner().invoke(pel_app, ["evaluate", "pipeline", *map(str, arguments)])


def test_the_table_and_the_json(tmp_path, linker, dev):
    train, output = tmp_path / "train.spacy", tmp_path / "metrics" / "dev.json"
    write_docs(train, [make_doc(("lithium", "D1"))])
    result = run(dev, "--train", train, "--output", output)
    assert result.exit_code == 0, result.output
    metrics = json.loads(output.read_text())
    assert metrics.pop("mentions_per_second") > 0 and metrics.pop("corpus") == str(dev)
    point = {"threshold": 0.5, "precision": 1.0, "recall": 1.0, "linked_right": 0.5}
    assert metrics.pop("nil_curve")[0] == point | {"all_recall_at_1": pytest.approx(2 / 3), "all_recall_at_64": 1.0}
    assert metrics == {
        **{"n_mentions": 3, "n_in_kb": 2, "n_nil": 1, "n_unannotated": 1},
        **{"recall_at_1": 0.5, "recall_at_5": 1.0, "recall_at_16": 1.0, "recall_at_64": 1.0, "mrr": 0.75},
        **{"seen_recall_at_1": 1.0, "unseen_recall_at_1": 0.0},
        **{"n_ambiguous": 0, "ambiguous_recall_at_1": None},
        **{"all_recall_at_1": pytest.approx(2 / 3), "all_recall_at_64": 1.0},
        **{"nil_precision": 1.0, "nil_recall": 1.0, "nil_f1": 1.0, "nil_auprc": 1.0},
        **{"nil_base_rate": pytest.approx(1 / 3), "nil_threshold": 0.5},
        **{"link_ece": None, "score_ece": None, "reliability": []},
        **{"n_gold_ids": 3, "n_gold_ids_missing": 1},
    }
    assert re.search(r"recall_at_1 +0\.5000", result.output)
    assert "1 of 3 distinct gold ids are not in the KB" in result.output
    assert linker.calls == [(3, 64)]


def test_the_reliability_of_a_calibrated_linker(tmp_path, linker, dev):
    linker.tuned = Tuned(calibration=Calibration(0.0, 0.0))
    result = run(dev, "--output", tmp_path / "dev.json")
    assert result.exit_code == 0 and "link_ece" in result.output
    metrics = json.loads((tmp_path / "dev.json").read_text())
    right = metrics["recall_at_1"] * metrics["n_in_kb"] / 3
    assert metrics["reliability"] == [{"n": 3, "probability": 0.5, "right": pytest.approx(right)}]
    assert metrics["link_ece"] == pytest.approx(abs(right - 0.5))


def test_plots(tmp_path, linker, dev):
    pytest.importorskip("matplotlib")
    linker.tuned = Tuned(calibration=Calibration(1.0, 0.0))
    folder = tmp_path / "new" / "plots"
    result = run(dev, "--plots", folder)
    assert result.exit_code == 0 and "No figure" not in result.output
    names = ("nil_precision_recall", "recall_at_k", "reliability", "top_scores")
    assert {path.name for path in folder.iterdir()} == {f"{name}{end}" for name in names for end in (".png", ".svg")}


def test_plots_of_what_is_there(tmp_path, linker, dev):
    pytest.importorskip("matplotlib")
    linker.threshold = None
    result = run(dev, "--plots", tmp_path / "plots")
    assert result.exit_code == 0
    assert "No figure reliability: the linker is not calibrated" in result.output
    assert "show no NIL threshold" in result.output
    assert not (tmp_path / "plots" / "reliability.png").exists() and (tmp_path / "plots" / "top_scores.png").exists()


def test_plots_that_cannot_be_written_are_refused_before_anything_is_linked(tmp_path, monkeypatch, linker, dev):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("in the way")
    taken = run(dev, "--plots", tmp_path / "file")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    missing = run(dev, "--plots", tmp_path / "plots")
    for result, error in ((taken, f"--plots {tmp_path / 'file'}: no such folder"), (missing, "spacy-pel[plots]")):
        assert result.exit_code == 1 and error in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not linker.calls and not (tmp_path / "plots").exists()


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_linked(tmp_path, linker, dev):
    result = run(dev, "--output", tmp_path)
    assert result.exit_code == 1 and "is no file that could be replaced" in result.output and not linker.calls


@pytest.mark.parametrize(
    ("named", "output"), [("CORPUS", "dev.spacy"), ("CORPUS", "link.spacy"), ("the training corpus", "train.spacy")]
)
def test_its_corpora_are_not_overwritten(tmp_path, linker, dev, named, output):
    write_docs(tmp_path / "train.spacy", [make_doc(("lithium", "D1"))])
    (tmp_path / "link.spacy").symlink_to(dev)
    before = (tmp_path / output).read_bytes()
    result = run(dev, "--train", tmp_path / "train.spacy", "--output", tmp_path / output)
    assert f"{output} is {named} too; name another file" in one_line(result)
    assert (tmp_path / output).read_bytes() == before and not linker.calls


def test_candidates_beyond_64_where_the_linker_searches_more(linker, dev):
    linker.settings = LinkSettings(top_k=100)
    assert run(dev).exit_code == 0
    assert linker.calls == [(3, 100)]


def test_without_a_threshold_there_is_a_dash(linker, dev):
    linker.threshold = None
    assert re.search(r"nil_f1 +-\s", run(dev).output)


def test_the_limit_is_in_documents(linker, dev):
    assert run(dev, "--limit", 1).exit_code == 0
    assert linker.calls == [(2, 64)]


def test_mentions_with_a_discarded_label_are_told(linker, dev):
    assert "labels_discard" not in run(dev).output
    linker.settings = LinkSettings(labels_discard=["X"])
    result = run(dev)
    assert "3 mentions have a label of labels_discard" in " ".join(result.output.split())
    assert re.search(r"recall_at_1 +0\.0000", result.output)


def test_mentions_that_are_not_searched_have_no_probability(tmp_path, linker):
    """They would be right calls of a linker that knows that it does not know."""
    doc = make_doc(("lithium", "D1"), ("flutter", "D2"), ("newborn", "D404"), ("heart", "D3"))
    gold = doc.spans[GOLD_GROUP]
    doc.spans[GOLD_GROUP] = [Span(doc, i, i + 1, "XXYY"[i], kb_id=one.kb_id) for i, one in enumerate(gold)]
    write_docs(tmp_path / "dev.spacy", [doc])
    linker.settings = LinkSettings(labels_discard=["Y"])
    linker.tuned = Tuned(calibration=Calibration(0.0, 0.0))
    assert run(tmp_path / "dev.spacy", "--output", tmp_path / "dev.json").exit_code == 0
    metrics = json.loads((tmp_path / "dev.json").read_text())
    assert metrics["reliability"] == [{"n": 2, "probability": 0.5, "right": 0.5}]
    assert metrics["score_ece"] == pytest.approx((0.1 + 0.8) / 2)
    assert (metrics["n_mentions"], metrics["recall_at_1"]) == (4, pytest.approx(1 / 3))


def test_a_pipeline_that_finds_no_entity_loses_no_measure(tmp_path, linker, dev):
    result = run(dev, "--end-to-end", "--output", tmp_path / "m.json")
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert metrics["recall_at_1"] == 0.5
    assert metrics["end_to_end_precision"] is None and metrics["end_to_end_recall"] == 0.0
    assert "finds no entity to be scored" in " ".join(result.output.split())


def test_errors_are_one_line_and_write_nothing(tmp_path, linker, dev):
    plain, text, output = tmp_path / "plain.spacy", tmp_path / "text.spacy", tmp_path / "m.json"
    write_docs(plain, [NLP("No mention here.")])
    text.write_text("not a DocBin")
    for corpus, error in [(plain, "has no annotated mention"), (text, "is not a"), (tmp_path / "x.spacy", "not exist")]:
        result = run(corpus, "--output", output)
        assert result.exit_code == 1
        assert corpus.name in result.stderr
        assert error in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not output.exists()


def test_a_pipeline_without_a_linker_is_refused(tmp_path, dev):
    spacy.blank("en").to_disk(tmp_path / "plain")
    result = CliRunner().invoke(pel_app, ["evaluate", str(tmp_path / "plain"), str(dev)])
    assert result.exit_code == 1
    assert "must hold one pel_linker" in result.stderr
    missing = CliRunner().invoke(pel_app, ["evaluate", str(tmp_path / "none"), str(dev)])
    assert missing.exit_code == 1
    assert "none" in missing.stderr
