"""How well several linkers tell NIL: precision and recall, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import srsly
import typer


def main(
    metrics: Annotated[Path, typer.Argument(help="Folder of the runs' JSON files")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Left: precision and recall of the NIL class over all thresholds, a dot at the tuned one, if one was kept. Right:
    average precision of NIL against recall@1 in the KB."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    runs: dict[str, Any] = {path.stem: srsly.read_json(path) for path in metrics.glob("*.json")}
    if not runs:
        raise typer.BadParameter(f"no run has written its measures to {metrics}", param_hint="METRICS")
    if without := sorted(name for name, found in runs.items() if not found.get("nil_curve")):
        why = "of its corpus, none or all mentions are NIL: there is no curve; leave it out"
        raise typer.BadParameter(f"{metrics / without[0]}.json: {why}", param_hint="METRICS")
    drawn = Figure(figsize=(11, 4.5), layout="constrained")
    curves, trade = drawn.subplots(1, 2)
    for number, (name, found) in enumerate(sorted(runs.items())):
        colour = f"C{number}"
        recall, precision = ([point[key] for point in found["nil_curve"]] for key in ("recall", "precision"))
        label = f"{name}: {found['nil_auprc']:.2f}"
        curves.plot([0, *recall], [precision[0], *precision], drawstyle="steps-pre", color=colour, label=label)
        if None not in (found["nil_recall"], found["nil_precision"]):
            curves.plot(found["nil_recall"], found["nil_precision"], "o", color=colour)
        trade.plot(found["nil_auprc"], found["recall_at_1"], "o", color=colour, label=name)
    base_rate = next(iter(runs.values()))["nil_base_rate"]
    curves.axhline(base_rate, color="grey", linestyle=":", label=f"chance level: {base_rate:.2f}")
    curves.set(xlabel="recall of NIL", ylabel="precision of NIL", xlim=(0, 1), ylim=(0, 1.02))
    curves.legend(title="average precision")
    trade.set(xlabel="average precision of NIL", ylabel="recall@1 in the KB")
    trade.margins(0.2)
    trade.legend()
    save_figure(drawn, output)


if __name__ == "__main__":
    typer.run(main)
