"""The figures show the numbers that they are given: read back from their axes, against numbers worked out by hand."""

import math
import sys

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.reports.plots import draw_figures, require_matplotlib, save_figure
from spacy_pel.tuning.calibration import Calibration, calibration_metrics
from spacy_pel.tuning.nil import nil_curve

matplotlib = pytest.importorskip("matplotlib")

KB = {"A", "B"}
RIGHT = [RankedMention(("A",), [("A", score), ("B", 0.0)]) for score in (0.9, 0.8, 0.3)]
WRONG = [RankedMention(("B",), [("A", 0.6), ("B", 0.5)]), RankedMention(("B",), [])]
NIL = [RankedMention(("NIL",), [("A", 0.2)]), RankedMention(("gone",), [("A", 0.7)])]
UNANNOTATED = [RankedMention((), [("A", 0.1)])]


def figures(ranked, threshold=0.5, calibration=None):
    metrics = {"reliability": [], "link_ece": None, "nil_curve": nil_curve(ranked, KB)}
    if calibration:
        ranked = [one._replace(probability=calibration.probability(one.top_score)) for one in ranked]
        metrics |= calibration_metrics(ranked)
    metrics |= link_metrics(ranked, KB, nil_threshold=threshold)
    return draw_figures(ranked, metrics, KB)


@pytest.fixture
def drawn():
    return figures([*RIGHT, *WRONG, *NIL, *UNANNOTATED], calibration=Calibration(0.0, 0.0))


def points(line):
    return [tuple(map(float, point)) for point in zip(*line.get_data())]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_nil_over_all_thresholds(drawn):
    # In order of score: none, NIL .2, A .3 | B .6, NIL .7, A .8, A .9.
    curve, base_rate, tuned = drawn["nil_precision_recall"].axes[0].lines
    found = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)]
    assert points(curve) == [(0, 0), *((hits / 2, hits / n) for hits, n in found)]
    assert set(base_rate.get_ydata()) == {2 / 7}
    assert points(tuned) == [(0.5, 1 / 3)]
    assert labels(drawn["nil_precision_recall"]) == [
        "all thresholds: average precision 0.450",  # 1/2 · 1/2 + 1/2 · 2/5
        "scores that say nothing: 0.286",
        "threshold 0.500: precision 0.333, recall 0.500",
    ]


def test_recall_at_every_depth(drawn):
    recall = points(drawn["recall_at_k"].axes[0].lines[0])
    assert recall == [(1, 0.6), *((k, 0.8) for k in range(2, 65))]
    assert [text.get_text() for text in drawn["recall_at_k"].axes[0].texts] == ["0.600", "0.800", "0.800", "0.800"]


def test_reliability(drawn):
    # Every mention with a candidate has probability 1/2, the one without 0; three of the six are right.
    upper, lower = drawn["reliability"].axes
    assert points(upper.lines[1]) == [(0, 0), (0.5, 0.5)]
    bars = {round(bar.get_x() + bar.get_width() / 2, 2): bar.get_height() for bar in lower.patches}
    assert bars == {0.05: 1, 0.55: 6}
    assert labels(drawn["reliability"])[1] == "mentions, in tenths; mean distance (ECE) 0.000"


def test_top_scores(drawn):
    panels = drawn["top_scores"].axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "Right candidate: 3; 1 under the threshold",
        "Wrong candidate: 2; 1 under the threshold; 1 without candidates",
        "NIL: 2; 1 under the threshold",
    ]
    for panel, scores in zip(panels, ([0.9, 0.8, 0.3], [0.6], [0.2, 0.7])):
        bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in panel.patches]
        assert sum(height for *_, height in bars) == len(scores)
        for score in scores:
            assert any(left - 1e-9 <= score <= left + width + 1e-9 for left, width, height in bars if height)
        assert set(panel.lines[0].get_xdata()) == {0.5}


def test_without_a_threshold_there_is_no_mark(drawn):
    untuned = figures([*RIGHT, *WRONG, *NIL], threshold=None)
    assert len(untuned["nil_precision_recall"].axes[0].lines) == 2
    assert all(not panel.lines for panel in untuned["top_scores"].axes) and not untuned["top_scores"].legends
    assert untuned["top_scores"].axes[0].get_title(loc="left") == "Right candidate: 3"


def reasons(ranked, **settings):
    return {name: found for name, found in figures(ranked, **settings).items() if isinstance(found, str)}


def test_what_cannot_be_measured_is_left_out():
    assert list(reasons(RIGHT)) == ["nil_precision_recall", "reliability"]
    assert list(reasons(NIL)) == ["nil_precision_recall", "recall_at_k", "reliability"]
    assert reasons(WRONG[1:], calibration=Calibration(1.0, 0.0)) == {
        "nil_precision_recall": "needs NIL mentions beside mentions in the KB",
        "top_scores": "no mention has a candidate",
    }


def test_scores_and_confidences_are_not_drawn_over_one_axis():
    why = "some mentions have a confidence and others a score only"
    of_both = reasons([*RIGHT, *(one._replace(confidence=0.5) for one in NIL)], threshold=None)
    assert of_both["nil_precision_recall"] == of_both["top_scores"] == why


@pytest.mark.parametrize("score", [0.5, -3.0, 1e6])
def test_one_score_is_enough(tmp_path, score):
    drawn = figures([RankedMention(("A",), [("A", score)]), RankedMention(("NIL",), [])], threshold=score)
    for name in ("nil_precision_recall", "top_scores"):
        save_figure(drawn[name], tmp_path / name)


def test_files_are_whole_the_same_again_and_matplotlib_is_left_alone(tmp_path, drawn):
    before = dict(matplotlib.rcParams)
    for name, figure in drawn.items():
        for folder in ("one", "two"):
            save_figure(figure, tmp_path / folder / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("one", "two"))
    assert one == two and len(one) == 8
    assert all(data.startswith(b"\x89PNG" if name.endswith(".png") else b"<?xml") for name, data in one.items())
    assert dict(matplotlib.rcParams) == before


def test_nothing_lies_outside_a_figure():
    """Titles, legends and labels with the longest numbers that are likely."""
    rng = np.random.default_rng(0)
    many = [RankedMention(("A",), [("A", score)]) for score in rng.normal(0.5, 0.1, 12_000)]
    many += [RankedMention(("B",), [("A", score)]) for score in rng.normal(-0.2, 0.1, 11_000)]
    many += [RankedMention(("B",), []) for _ in range(10_000)] + NIL * 5_000
    for figure in figures(many, threshold=-math.pi, calibration=Calibration(1.0, 0.0)).values():
        figure.draw_without_rendering()
        page, drawn = figure.bbox, figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert page.x0 <= drawn.x0 + 1 and drawn.x1 <= page.x1 + 1
        assert page.y0 <= drawn.y0 + 1 and drawn.y1 <= page.y1 + 1


def test_matplotlib_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PelError, match=r'pip install "spacy-pel\[plots\]"'):
        require_matplotlib()
