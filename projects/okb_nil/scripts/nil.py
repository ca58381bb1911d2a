"""Runs that differ in loss and margin, and the figure over them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from thinc.api import Config

app = typer.Typer(help=__doc__)


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Of the run: training/NAME, metrics/NAME.json; -seed1 is added to it")],
    margin: Annotated[float, typer.Option(help="Of the proxy-based loss")] = 0.0,
    cross_entropy: Annotated[bool, typer.Option("--ce", help="Cross-entropy on dot products instead")] = False,
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 540,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train, index, tune NIL on corpus/dev.spacy, evaluate on corpus/test.spacy."""
    name += f"-seed{seed}" if seed else ""
    folder = Path("training") / name
    folder.mkdir(parents=True, exist_ok=True)
    config = Config().from_disk("configs/train.cfg", interpolate=False)
    linker: Any = config["components"]["pel_linker"]
    if cross_entropy:
        linker["loss"] = {"@misc": "spacy_pel.CrossEntropyLoss.v1"}
        linker["model"]["similarity"] = "dot"
    else:
        linker["loss"]["margin"] = margin
    config["training"] |= {"max_steps": steps, "seed": seed}
    config.to_disk(folder / "train.cfg")
    gpu = ("--gpu-id", gpu_id)
    spacy("train", folder / "train.cfg", "--output", folder, *gpu)
    spacy("pel", "index", folder / "model-last", "kb", folder / "linker", "--force", *gpu)
    spacy("pel", "tune-nil", folder / "linker", "corpus/dev.spacy", *gpu)
    measures = ("--train", "corpus/train.spacy", "--output", Path("metrics") / f"{name}.json")
    spacy("pel", "evaluate", folder / "linker", "corpus/test.spacy", *measures, *gpu)


@app.command()
def figure(
    metrics: Annotated[Path, typer.Argument(help="Folder of the runs' JSON files")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Left: precision and recall of the NIL class over all thresholds, a dot at the tuned one. Right: average
    precision of NIL against recall@1 in the KB."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    runs: dict[str, Any] = {path.stem: srsly.read_json(path) for path in metrics.glob("*.json")}
    if not runs:
        raise typer.BadParameter(f"no run has written its measures to {metrics}", param_hint="METRICS")
    drawn = Figure(figsize=(11, 4.5), layout="constrained")
    curves, trade = drawn.subplots(1, 2)
    for number, (name, found) in enumerate(sorted(runs.items())):
        colour = f"C{number}"
        recall, precision = ([point[key] for point in found["nil_curve"]] for key in ("recall", "precision"))
        label = f"{name}: {found['nil_auprc']:.2f}"
        curves.plot([0, *recall], [precision[0], *precision], drawstyle="steps-pre", color=colour, label=label)
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


def spacy(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], check=True)


if __name__ == "__main__":
    app()
