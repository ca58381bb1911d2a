"""Figures of an evaluation: NIL over all thresholds, recall at every depth, reliability, and the top scores."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PelError
from ..files.atomic import write_atomically
from ..mentions.ranked import RankedMention, held_alike
from ..tuning.nil import Outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = np.arange(1, 65)
LABELLED_DEPTHS = (1, 5, 16, 64)
MOST_BARS = 50
RIGHT, WRONG, NIL, PLAIN = "#0072b2", "#d55e00", "#7a4fa3", "#555555"  # told apart without colour vision too


def require_matplotlib() -> None:
    """Check that matplotlib is there.

    Raises:
        PelError: If it is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PelError('figures need the package matplotlib; run `pip install "spacy-pel[plots]"`.') from error


def draw_figures(
    ranked: Sequence[RankedMention], metrics: Mapping[str, Any], kb_ids: Container[str]
) -> dict[str, Figure | str]:
    """All figures by file name; in place of one with nothing to show, why."""
    held, nil, rank = Outcomes.of(ranked, kb_ids)
    annotated = [mention for mention in ranked if mention.gold]
    by_score = all(mention.confidence is None for mention in annotated)
    mixed = None if held_alike(annotated) else "some mentions have a confidence and others a score only"
    groups = {"Right candidate": rank == 1, "Wrong candidate": ~nil & (rank > 1), "NIL": nil}
    return {
        "nil_precision_recall": nil_precision_recall(metrics)
        or mixed
        or "needs NIL mentions beside mentions in the KB",
        "recall_at_k": recall_at_k(rank[~nil]) or "no mention is in the KB",
        "reliability": reliability(metrics) or "the linker is not calibrated; run `spacy pel tune-nil`",
        "top_scores": mixed
        or top_scores(
            {name: held[group] for name, group in groups.items()},
            metrics["nil_threshold"],
            "score of the first candidate" if by_score else "probability that the KB has it",
        )
        or "no mention has a candidate",
    }


def nil_precision_recall(metrics: Mapping[str, Any]) -> Figure | None:
    """`nil_curve`, the base rate, and the point of the threshold in force. None without a curve."""
    if not metrics["nil_curve"]:
        return None
    figure = _figure()
    axes = figure.subplots()
    recall, precision = ([point[key] for point in metrics["nil_curve"]] for key in ("recall", "precision"))
    label = f"all thresholds: average precision {metrics['nil_auprc']:.3f}"
    axes.plot([0, *recall], [precision[0], *precision], drawstyle="steps-pre", color=NIL, label=label)
    base_rate = metrics["nil_base_rate"]
    axes.axhline(base_rate, color=PLAIN, linestyle=":", label=f"scores that say nothing: {base_rate:.3f}")
    if metrics["nil_precision"] is not None:
        found, threshold = (metrics["nil_recall"], metrics["nil_precision"]), metrics["nil_threshold"]
        label = f"threshold {threshold:.3f}: precision {found[1]:.3f}, recall {found[0]:.3f}"
        axes.plot(*found, "o", color=NIL, markersize=8, clip_on=False, zorder=3, label=label)
    axes.set(xlabel="recall of NIL", ylabel="precision of NIL", xlim=(0, 1), ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", frameon=False)
    return figure


def recall_at_k(rank: np.ndarray) -> Figure | None:
    """Of the mentions in the KB, by the `rank` (n,) of their first correct candidate. None without a mention."""
    if not len(rank):
        return None
    figure = _figure()
    axes = figure.subplots()
    recall = (rank[:, None] <= DEPTHS).mean(axis=0)
    axes.plot(DEPTHS, recall, color=RIGHT)
    for k in LABELLED_DEPTHS:
        axes.plot(k, recall[k - 1], "o", color=RIGHT, clip_on=False, zorder=3)
        axes.annotate(f"{recall[k - 1]:.3f}", (k, recall[k - 1]), (5, -14), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks := [1, 2, 4, 8, 16, 32, 64], [str(k) for k in ticks])
    lowest = max(0.0, np.floor(10 * recall[0] - 1) / 10)
    axes.set(xlabel="k, candidates", ylabel="recall@k", xlim=(0.85, 110), ylim=(lowest, 1.005))
    axes.set_title(f"{len(rank):,} mentions in the KB: a correct entity is among the first k", fontsize="medium")
    axes.grid(alpha=0.3)
    return figure


def reliability(metrics: Mapping[str, Any]) -> Figure | None:
    """The bins of `reliability`, above the number of links in each. None without a bin."""
    bins = metrics["reliability"]
    if not bins:
        return None
    figure = _figure(height=5.6)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    probability, right, n = (np.array([one[key] for one in bins]) for key in ("probability", "right", "n"))
    upper.plot([0, 1], [0, 1], color=PLAIN, linestyle=":", label="as often right as the probability says")
    label = f"mentions, in tenths; mean distance (ECE) {metrics['link_ece']:.3f}"
    upper.plot(probability, right, "o", color=RIGHT, clip_on=False, zorder=3, label=label)
    upper.vlines(probability, probability, right, color=RIGHT)
    upper.set(ylabel="share that is right", ylim=(0, 1))
    upper.grid(alpha=0.3)
    lower.bar((np.minimum(np.floor(10 * probability), 9) + 0.5) / 10, n, width=0.09, color=RIGHT)
    lower.set(xlabel="probability that the first candidate is right", ylabel="mentions", xlim=(0, 1))
    figure.legend(loc="outside upper center", frameon=False)
    return figure


def probabilities(bins: np.ndarray, known: np.ndarray | None = None) -> Figure | None:
    """The shares of mentions whose probability is in each of equal bins of [0, 1], from counts (n,), beside those of a
    corpus that is `known` (n,). None without a mention."""
    if not bins.sum():
        return None
    figure = _figure()
    axes = figure.subplots()
    middles = (np.arange(len(bins)) + 0.5) / len(bins)
    axes.bar(middles, bins / bins.sum(), width=0.9 / len(bins), color=RIGHT, label=f"here: {bins.sum():,} mentions")
    if known is not None:
        axes.plot(middles, known / known.sum(), "o--", color=WRONG, label=f"known: {known.sum():,} mentions")
    axes.set(xlabel="probability that the first candidate is right", ylabel="share of the mentions", xlim=(0, 1))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", frameon=False)
    return figure


def top_scores(groups: Mapping[str, np.ndarray], threshold: float | None, label: str) -> Figure | None:
    """Histograms of the top scores (n,) of groups of mentions, or of what else (`label`) the NIL `threshold` is held
    against, by title, over one axis. Infinite scores, those of mentions without a candidate, are counted only. None
    without a finite one."""
    finite = {name: scores[np.isfinite(scores)] for name, scores in groups.items()}
    everything = np.concatenate(list(finite.values()))
    if not len(everything):
        return None
    edges = np.histogram_bin_edges(everything, min(MOST_BARS, 10 + int(len(everything) ** 0.5)))
    figure = _figure(height=5.6)
    panels = figure.subplots(len(groups), sharex=True)
    for axes, (name, scores), colour in zip(panels, groups.items(), (RIGHT, WRONG, NIL), strict=True):
        axes.hist(finite[name], edges, color=colour)
        title = f"{name}: {len(scores):,}"
        if threshold is not None:
            line = axes.axvline(threshold, color="black", linestyle="--", label=f"NIL threshold {threshold:.3f}")
            title += f"; {np.sum(scores < threshold):,} under the threshold"
        if n_without := len(scores) - len(finite[name]):
            title += f"; {n_without:,} without candidates"
        axes.set_title(title, loc="left", fontsize="medium")
        axes.yaxis.get_major_locator().set_params(integer=True)
    panels[-1].set_xlabel(label)
    figure.supylabel("mentions", fontsize="medium")
    if threshold is not None:
        figure.legend(handles=[line], loc="outside upper center", frameon=False)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write `path` with the suffixes .png and .svg, each whole or not at all."""
    from matplotlib import rc_context

    for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
        data = BytesIO()
        with rc_context({"svg.hashsalt": "spacy-pel"}):  # equal figures give equal files
            figure.savefig(data, format=suffix[1:], dpi=150, metadata=metadata)
        write_atomically(path.with_name(path.name + suffix), data.getvalue())


def _figure(height: float = 4.5) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(7, height), layout="constrained")
