"""One row of a table of the paper: a training with another loss or other negatives, and its measures."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer


def main(
    name: Annotated[str, typer.Argument(help="Of the row: training/NAME, metrics/NAME.json; -seed1 is added to it")],
    config: Annotated[Path, typer.Argument(help="The training config")],
    vary: Annotated[str, typer.Option(help="Options of ../shared/vary.py, in one string")],
    corpus: Annotated[Path, typer.Option(help="Folder with {train,train_in_kb,tune,dev}.spacy")] = Path("corpus"),
    kb: Annotated[Path, typer.Option(help="KB folder without vectors")] = Path("kb"),
    encoder: Annotated[str, typer.Option(help="A name or a folder; that of CONFIG by default")] = "",
    steps: Annotated[int, typer.Option(help="Optimiser steps; 0: all epochs of CONFIG")] = 0,
    tune_nil: Annotated[
        bool, typer.Option("--tune-nil", help="Tune the NIL threshold on tune.spacy, and add standard errors")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train, index, and evaluate on dev.spacy, by vectors alone."""
    name += f"-seed{seed}" if seed else ""
    folder, gpu = Path("training") / name, ("--gpu-id", gpu_id)
    python("../shared/vary.py", config, folder / "train.cfg", *shlex.split(vary))
    paths = ("--paths.train", corpus / "train_in_kb.spacy", "--paths.dev", corpus / "tune.spacy", "--paths.kb", kb)
    named = ("--paths.encoder", encoder) if encoder else ()
    epochs = ("--training.max_epochs", 0) if steps else ()
    budget = ("--training.max_steps", steps, *epochs, "--training.seed", seed)
    spacy("train", folder / "train.cfg", "--output", folder, *paths, *named, *budget, *gpu)
    spacy("pel", "index", folder / "model-last", kb, folder / "linker", "--force", *gpu)
    if tune_nil:
        spacy("pel", "tune-nil", folder / "linker", corpus / "tune.spacy", *gpu)
    output = Path("metrics") / f"{name}.json"
    measures = ("--train", corpus / "train.spacy", "--output", output)
    spacy("pel", "evaluate", folder / "linker", corpus / "dev.spacy", *measures, *gpu)
    if tune_nil:
        python("../shared/spread.py", folder / "linker", corpus / "dev.spacy", output, *gpu)


def spacy(*arguments: object) -> None:
    python("-m", "spacy", *arguments)


def python(*arguments: object) -> None:
    subprocess.run([sys.executable, *map(str, arguments)], check=True)


if __name__ == "__main__":
    typer.run(main)
