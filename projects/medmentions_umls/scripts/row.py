"""One row of a table of the paper: a training with another loss or other negatives, and its measures."""

from __future__ import annotations

import shlex
import subprocess
import sys
from math import ceil
from pathlib import Path
from typing import Annotated

import spacy as spacy_
import srsly
import typer
from thinc.api import Config

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.files.hashes import sha256
from spacy_pel.mentions.gold import gold_mentions


def main(
    name: Annotated[str, typer.Argument(help="Of the row: training/NAME-SEED, metrics/NAME-SEED.json")],
    config: Annotated[Path, typer.Argument(help="The training config")],
    vary: Annotated[str, typer.Option(help="Options of ../shared/vary.py, in one string")],
    corpus: Annotated[Path, typer.Option(help="Folder with {train,train_in_kb,tune,dev}.spacy")] = Path("corpus"),
    kb: Annotated[Path, typer.Option(help="KB folder without vectors")] = Path("kb"),
    encoder: Annotated[str, typer.Option(help="A name or a folder; that of CONFIG by default")] = "",
    steps: Annotated[int, typer.Option(help="Optimiser steps; 0: as many as EPOCHS are")] = 0,
    epochs: Annotated[int, typer.Option(help="Passes over the mentions of train_in_kb.spacy")] = 7,
    tune_nil: Annotated[
        bool, typer.Option("--tune-nil", help="Tune the NIL threshold on tune.spacy, and add standard errors")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train, index, and evaluate on dev.spacy, by vectors alone. NIL is told by the best score, as in the paper.
    Loss and gradient norm of every step are in training/NAME-SEED/steps.jsonl."""
    folder, gpu = Path("training") / f"{name}-{seed}", ("--gpu-id", gpu_id)
    python("../shared/vary.py", config, folder / "train.cfg", *shlex.split(vary))
    learnt = corpus / "train_in_kb.spacy"
    steps_file = ("--paths.steps", folder / "steps.jsonl")
    paths = ("--paths.train", learnt, "--paths.dev", corpus / "tune.spacy", "--paths.kb", kb, *steps_file)
    named = ("--paths.encoder", encoder) if encoder else ()
    steps = steps or steps_of(folder / "train.cfg", learnt, epochs)
    budget = ("--training.max_steps", steps, "--training.seed", seed)
    spacy("train", folder / "train.cfg", "--output", folder, *paths, *named, *budget, *gpu)
    spacy("pel", "index", folder / "model-last", kb, folder / "linker", "--force", *gpu)
    output = Path("metrics") / f"{name}-{seed}.json"
    measured = (folder / "linker", corpus / "dev.spacy")
    known = ("--train", corpus / "train.spacy")
    if tune_nil:
        spacy("pel", "tune-nil", folder / "linker", corpus / "tune.spacy", "--by-score", *gpu)
        python("../shared/spread.py", *measured, output, *known, *gpu)
    else:
        spacy("pel", "evaluate", *measured, *known, "--output", output, *gpu)
    files = (config, learnt, *(corpus / f"{part}.spacy" for part in ("train", "tune", "dev")))
    own = encoder or Config().from_disk(config, interpolate=False)["paths"]["encoder"]
    settings = {"steps": steps, "config": sha256(folder / "train.cfg")}  # as varied; the rest are overrides
    python("../shared/note_settings.py", output, srsly.json_dumps(settings), kb, own, *files)


def steps_of(config: Path, corpus: Path, epochs: int) -> int:
    """The steps of so many passes over the mentions of CORPUS in the batches of CONFIG."""
    docs = read_docs(corpus, spacy_.blank("en").vocab)
    n_mentions = sum(mention.is_linked for doc in docs for mention in gold_mentions(doc))
    return epochs * ceil(n_mentions / Config().from_disk(config)["training"]["batcher"]["size"])


def spacy(*arguments: object) -> None:
    python("-m", "spacy", *arguments)


def python(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    typer.run(main)
