"""A trained linker goes on for some steps, towards the scores of a ranker or without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from thinc.api import Config

RATE = 5e-5  # a third of that of configs/train.cfg: both towers are trained


def main(
    linker: Annotated[Path, typer.Argument(help="A trained pipeline: its encoders are begun with")],
    targets: Annotated[Path, typer.Argument(help="What `spacy pel distil` has written of the training corpus")],
    output: Annotated[Path, typer.Argument(help="Folder for the trained pipelines")],
    weight: Annotated[float, typer.Option(help="Of the ranker's scores; 0: only its candidates are negatives")] = 1.0,
    temperature: Annotated[float, typer.Option(help="Of both softmaxes")] = 1.0,
    n: Annotated[int, typer.Option(help="The ranker's candidates that become negatives of a mention")] = 3,
    steps: Annotated[int, typer.Option(help="Optimiser steps of 96 mentions")] = 40,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train by configs/train.cfg with these changes; the ranker gives the hard negatives, so no KB is encoded."""
    config = Config().from_disk("configs/train.cfg", interpolate=False)
    settings = config["components"]["pel_linker"]
    settings["distillation"] = {
        "@misc": "spacy_pel.Distillation.v1",
        "path": str(targets),
        "n": n,
        "weight": weight,
        "temperature": temperature,
    }
    settings["negatives"] = {"@misc": "spacy_pel.RandomNegatives.v1", "n": 1}
    config["initialize"]["components"]["pel_linker"]["encoder_loader"]["name"] = str(linker / "pel_linker")
    training = config["training"]
    training["before_update"] = None
    training["max_steps"] = training["eval_frequency"] = steps
    training["optimizer"]["learn_rate"]["initial_rate"] = RATE
    config["system"]["seed"] = seed
    output.mkdir(parents=True, exist_ok=True)
    config.to_disk(output / "distil.cfg")
    command = ["train", output / "distil.cfg", "--output", output, "--gpu-id", gpu_id]
    if code := subprocess.run([sys.executable, "-m", "spacy", *map(str, command)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    typer.run(main)
