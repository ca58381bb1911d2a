"""Runs of one training config that differ in loss, negatives, FGSM and rate, their table and their gradients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import srsly
import typer
from thinc.api import Config

from spacy_pel.cli.table import check_seeds, markdown, over_seeds
from spacy_pel.errors import PelError

LOSSES: dict[str, dict[str, Any]] = {
    "pb": {"@misc": "spacy_pel.ProxyLoss.v1"},
    "ce": {"@misc": "spacy_pel.CrossEntropyLoss.v1"},
    "ce-cosine": {"@misc": "spacy_pel.CrossEntropyLoss.v1", "scale": 32.0, "similarity": "cosine"},
}
FILES = ("configs/base.cfg", "corpus/train.spacy", "corpus/dev.spacy")  # that every run reads
RATES = (5e-5, 1e-4, 2e-4, 4e-4)
COLUMNS = (
    "recall_at_1",
    "recall_at_64",
    "seen_recall_at_1",
    "unseen_recall_at_1",
    "nil_auprc",
    "nil_base_rate",
    "training_seconds",
    "core_seconds",
)

app = typer.Typer(help=__doc__)
Metrics = Annotated[Path, typer.Argument(help="Folder of the runs' JSON files")]


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Of the run: metrics/NAME-SEED.json")],
    loss: Annotated[str, typer.Option(help="pb, ce, or ce-cosine: on 32 times the cosine")],
    rate: Annotated[float, typer.Option(help="The highest learning rate")],
    p: Annotated[int, typer.Option(help="Per cent of the negatives that are hard")] = 0,
    n: Annotated[int, typer.Option(help="Negatives a mention")] = 8,
    epsilon: Annotated[float, typer.Option(help="FGSM's step; 0: no FGSM")] = 0.0,
    layer: Annotated[str, typer.Option(help="What FGSM steps on: sum or normalised")] = "sum",
    origin: Annotated[str, typer.Option(help="Of pb: a cosine, or auto")] = "0",
    context: Annotated[int, typer.Option(help="Word pieces on either side of a mention; -1: all that fit")] = -1,
    pooling: Annotated[str, typer.Option(help="mean, mention or cls")] = "mean",
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 94,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
    whole_kb: Annotated[bool, typer.Option(help="Index the KB and evaluate over all of it")] = True,
) -> None:
    """Train, index, evaluate on the development split; the finished pipelines are not kept."""
    folder, metrics = Path("training") / f"{name}-{seed}", Path("metrics") / f"{name}-{seed}.json"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    metrics.parent.mkdir(parents=True, exist_ok=True)
    objective = dict(LOSSES[loss])
    if loss == "pb":
        objective["origin"] = origin if origin == "auto" else float(origin)
    model: dict[str, Any] = {"similarity": "dot" if loss == "ce" else "cosine", "pooling": pooling}
    linker: dict[str, Any] = {"loss": objective, "negatives": {"n": n, "p": p}, "model": model}
    if context >= 0:
        model["context"] = context
    if epsilon:
        linker["adversarial"] = {"@misc": "spacy_pel.FGSM.v1", "epsilon": epsilon, "weight": 1.0, "layer": layer}
    changed = {
        "paths": {"steps": str(folder / "steps.jsonl")},
        "components": {"pel_linker": linker},
        "training": {"seed": seed, "max_steps": steps, "optimizer": {"learn_rate": {"initial_rate": rate}}},
    }
    if not whole_kb:
        changed["training"]["eval_frequency"] = max(steps, 2) - 1  # the last one
    Config().from_disk("configs/base.cfg", interpolate=False).merge(changed).to_disk(folder / "train.cfg")
    start, cores = perf_counter(), core_seconds()
    spacy("train", folder / "train.cfg", "--output", folder, "--gpu-id", gpu_id)
    spent = {"training_seconds": perf_counter() - start, "core_seconds": core_seconds() - cores}
    budget = {"steps": steps, "rate": rate, "seed": seed, **spent}
    if whole_kb:
        spacy("pel", "index", folder / "model-last", "kb", folder / "linker", "--gpu-id", gpu_id)
        known = ("--train", "corpus/train.spacy")
        spacy("pel", "evaluate", folder / "linker", "corpus/dev.spacy", *known, "--output", metrics, "--gpu-id", gpu_id)
        found: Any = srsly.read_json(metrics)
    else:
        scores: Any = srsly.read_json(folder / "model-last" / "meta.json")["performance"]
        found = {key.removeprefix("nel_"): value for key, value in scores.items() if key.startswith("nel_")}
    srsly.write_json(metrics, {"run": name, **found, **budget})
    settings = {"loss": loss, "p": p, "n": n, "epsilon": epsilon, "layer": layer, "origin": origin}
    settings |= {"context": context, "pooling": pooling, "whole_kb": whole_kb}
    python("../shared/note_settings.py", metrics, srsly.json_dumps(settings), "kb", "assets/encoder", *FILES)
    for part in ("linker", "model-last", "model-best"):
        shutil.rmtree(folder / part, ignore_errors=True)


@app.command()
def rates(
    steps: Annotated[int, typer.Option(help="Optimiser steps of a full run; these take half as many")] = 94,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Short runs of each loss at several learning rates, scored over a part of the KB: metrics/rates."""
    for rate, loss in product(RATES, LOSSES):
        run(f"rates/{loss}-{rate:g}", loss, rate, steps=max(steps // 2, 2), gpu_id=gpu_id, whole_kb=False)


@app.command()
def table(metrics: Metrics) -> None:
    """Write and print METRICS/table.md: a row a run, over its seeds the mean, with the least and the greatest. Runs of
    one name and the same steps and rate that differ in anything else are refused."""
    found: list[Any] = [srsly.read_json(path) | {"path": path} for path in sorted(metrics.glob("*.json"))]
    if strange := [one["path"] for one in found if "run" not in one]:
        raise typer.BadParameter(f"{strange[0]} is of no run here: move it to another folder")
    if not found:
        raise typer.BadParameter(f"{metrics} has no run: run one of the rows first")
    rows = [["", "seeds", "steps", "rate", *COLUMNS]]
    trial = itemgetter("run", "steps", "rate")
    for (name, steps, rate), group in groupby(sorted(found, key=trial), key=trial):
        runs = list(group)
        try:
            check_seeds({str(one["path"]): one for one in runs})
        except PelError as error:
            typer.secho(f"✘ {error}", fg="red", err=True)
            raise typer.Exit(1) from error
        cells = [over_seeds(key, (one.get(key) for one in runs)) for key in COLUMNS]
        rows.append([name, str(len(runs)), str(steps), f"{rate:g}", *cells])
    text = markdown(rows)
    (metrics / "table.md").write_text(text, encoding="utf-8")
    typer.echo(text)


@app.command()
def figure(
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
    names: Annotated[list[str], typer.Argument(help="Runs: NAME-SEED")],
    window: Annotated[int, typer.Option(help="Steps of the running mean; as many steps as there are, at most")] = 50,
) -> None:
    """Draw the gradient norms of runs, before clipping: the running mean as a line, the steps as a faint one behind it.
    Of the second half of the steps print mean and deviation, unsmoothed."""
    import numpy as np
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    drawn = Figure(figsize=(8, 4), layout="constrained")
    axes = drawn.subplots()
    for name in names:
        norms = np.array([line["gradient_norm"] for line in srsly.read_jsonl(Path("training") / name / "steps.jsonl")])
        late = norms[len(norms) // 2 :]
        (steps,) = axes.plot(norms, linewidth=0.5, alpha=0.3)
        smooth = running_mean(norms, window)
        start = len(norms) - len(smooth)
        label = f"{name}: {late.std() / late.mean():.2f}"
        axes.plot(np.arange(start, len(norms)), smooth, color=steps.get_color(), label=label, linewidth=1.5)
        typer.echo(f"{name}: mean {late.mean():.4g}, deviation {late.std():.4g}, ratio {late.std() / late.mean():.3f}")
    axes.set(xlabel=f"step (mean over the last {window})", ylabel="norm of the gradient, before clipping", yscale="log")
    axes.legend(title="deviation / mean in the second half")
    save_figure(drawn, output)


def running_mean(values: Any, window: int) -> Any:
    """The means (n - w + 1,) of w = `window` successive `values` (n,); of all where there are fewer."""
    import numpy as np

    window = min(window, len(values))
    return np.convolve(values, np.full(window, 1 / window), mode="valid")


def spacy(*arguments: object) -> None:
    python("-m", "spacy", *arguments)


def python(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


def core_seconds() -> float:
    """What finished child processes took of all cores, which other work beside them hardly changes."""
    return os.times().children_user + os.times().children_system


if __name__ == "__main__":
    app()
