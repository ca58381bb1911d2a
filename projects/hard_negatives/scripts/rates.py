"""The learning rates of the score functions: short trainings with random negatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly
import typer
from scores import (
    ALL,
    GPU,
    RATES_FILE,
    Data,
    Scores,
    Seed,
    Steps,
    clear,
    config_of,
    is_there,
    kept_rates,
    kind_of,
    settings_of,
    train,
    write,
)

from spacy_pel.cli.table import markdown

RATES = (5e-5, 1e-4, 2e-4)
DEV_LIMIT, DEV_SAMPLE = 200, 2000  # documents, and entities besides their own, that decide


def main(scores: Scores = ALL, steps: Steps = 94, seed: Seed = 0, name: Data = "scores", gpu_id: GPU = -1) -> None:
    """Train each score function for half as many steps at several rates, and measure it over a part of the KB. Write
    the best rates to configs/rates.json, which `scores.py run` reads, and all figures to metrics/NAME/rates.md."""
    own = scores.split(",")
    found = {rate: {score: measured(score, rate, steps, seed, name, gpu_id) for score in own} for rate in RATES}
    best = {score: max(RATES, key=lambda rate: found[rate][score]) for score in own}
    rows = [["rate", *own]]
    rows += [[f"{rate:g}", *(cell(*found[rate][score], best[score] == rate) for score in own)] for rate in RATES]
    srsly.write_json(RATES_FILE, kept_rates() | {kind_of(score): rate for score, rate in best.items()})
    write(Path("metrics") / name / "rates.md", markdown(rows))


def measured(score: str, rate: float, steps: int, seed: int, name: str, gpu_id: int) -> tuple[float, float]:
    """recall@1 and recall@64 of a short training; it is not run again where it is there."""
    settings = settings_of(score, 0, "sample", max(steps // 2, 2), rate, seed, name)
    metrics = Path("metrics") / name / "rates" / f"{score}-{rate:g}-{seed}.json"
    if not is_there(metrics, settings):
        folder = Path("training") / name / "rates" / f"{score}-{rate:g}"
        config = config_of(settings, name)
        config["corpora"]["dev"]["limit"] = DEV_LIMIT
        config["components"]["pel_linker"]["scorer"]["kb_sample"] = DEV_SAMPLE
        config["training"]["eval_frequency"] = settings["steps"] - 1  # the last one
        train(folder, config, gpu_id)
        scored: Any = srsly.read_json(folder / "model-last" / "meta.json")["performance"]
        metrics.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(metrics, {key: scored[f"nel_{key}"] for key in ("recall_at_1", "recall_at_64")} | settings)
        clear(folder)
    found: Any = srsly.read_json(metrics)
    return found["recall_at_1"], found["recall_at_64"]


def cell(at_1: float, at_64: float, is_best: bool) -> str:
    return f"**{at_1:.3f}** / {at_64:.3f}" if is_best else f"{at_1:.3f} / {at_64:.3f}"


if __name__ == "__main__":
    typer.run(main)
