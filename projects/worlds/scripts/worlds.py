"""A linker trained on some worlds, each a vocabulary with its corpus, and measured on others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import spacy
import srsly
import typer

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.hold_out import HoldOut
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.pipeline.default_weights import default_weights
from spacy_pel.pipeline.tuning import find_for_gold
from spacy_pel.search.weights import NO_NAMES, NameWeights

app = typer.Typer(help=__doc__)


@app.command()
def train(
    folder: Annotated[Path, typer.Argument(help="Where the linker goes: FOLDER/linker, with a KB of its worlds")],
    worlds: Annotated[list[str], typer.Argument(help="Those to train on: kb/WORLD and corpus/WORLD.spacy")],
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 150,
    hold_out: Annotated[float, typer.Option(help="Share of the entities that are kept for tuning")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train on the worlds, in one KB in which the type of an entity is its world. What names count is tuned on
    mentions of entities that are held out of the training, as the entities of another world are."""
    whole, known = folder / "kb", folder / "known"
    held_out = HoldOut(hold_out, seed=seed)
    KnowledgeBase.create(whole, entities_of(worlds), overwrite=True)
    KnowledgeBase.create(known, (one for one in entities_of(worlds) if not held_out.holds(one)), overwrite=True)
    for part in ("learn", "tune"):  # which are read whole: an earlier run may have left other worlds there
        shutil.rmtree(folder / part, ignore_errors=True)
    for world in worlds:
        source, file = Path("corpus") / f"{world}.spacy", f"{world}.spacy"
        python("../shared/in_kb.py", source, known, folder / "learn" / file, "--rest", folder / "tune" / file)
    gpu = ("--gpu-id", gpu_id)
    paths = ("--paths.train", folder / "learn", "--paths.kb", known)
    options = ("--training.max_steps", steps, "--system.seed", seed)
    python("-m", "spacy", "train", "configs/train.cfg", "--output", folder, *paths, *options, *gpu)
    python("-m", "spacy", "pel", "index", folder / "model-last", whole, folder / "linker", "--force", *gpu)
    python("-m", "spacy", "pel", "tune-lexical", folder / "linker", folder / "tune", *gpu)


def entities_of(worlds: Sequence[str]) -> Iterator[Entity]:
    """The entities of several worlds, each with its world as its type."""
    for world in worlds:
        for entity in KnowledgeBase(Path("kb") / world).entities():
            yield replace(entity, types=(world,), type_names=())


@app.command()
def test(
    folder: Annotated[Path, typer.Argument(help="What `train` wrote")],
    worlds: Annotated[list[str], typer.Argument(help="Those to measure on, which it was not trained on")],
    row: Annotated[str, typer.Option(help="Of the table: metrics/ROW/WORLD.json; without --vectors another beside it")],
    pipeline: Annotated[str, typer.Option(help="Its folder in FOLDER")] = "linker",
    vectors: Annotated[
        bool, typer.Option("--vectors", help="By vectors of entities alone: no names and no long forms, one row")
    ] = False,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Link the mentions of other worlds, each to its own KB, which is encoded here and written to FOLDER/WORLD, or
    with `--vectors` to FOLDER/vectors/WORLD. What names count is weighed in two ways, a row for each: see `rows`."""
    if trained_on := [world for world in worlds if (folder / "learn" / f"{world}.spacy").is_file()]:
        raise typer.BadParameter(f"{folder} was trained on {', '.join(trained_on)}", param_hint="WORLDS")
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    nlp = spacy.load(folder / pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    kbs = folder
    if vectors:
        linker.lexical, linker.resolve_abbreviations, linker.vectors = None, False, "entity"
        kbs = folder / "vectors"
    tuned = linker.name_weights
    linker.types_by_label = {}  # of the worlds that it was trained on
    for world in worlds:
        linker.set_kb(KnowledgeBase(Path("kb") / world).copy_to(kbs / world, indexes=()))
        linker.index()
        found = find_for_gold(linker, read_docs(Path("corpus") / f"{world}.spacy", nlp.vocab), progress=True)
        weighed = {row: NO_NAMES} if vectors else rows(row, default_weights(linker), tuned)
        for name, weights in weighed.items():
            values: dict[str, Any] = link_metrics([one.ranked(weights) for one in found], linker.kb)
            values["lexical"] = weights.as_setting()
            output = Path("metrics") / name / f"{world}.json"
            output.parent.mkdir(parents=True, exist_ok=True)
            srsly.write_json(output, values)
            typer.echo(f"{output}: recall@1 {values['recall_at_1']:.4f}, weights {values['lexical']}")


def rows(name: str, default: NameWeights, tuned: NameWeights | None) -> dict[str, NameWeights]:
    """Two rows of the table, and what names count there: NAME by default, and NAME-tuned as was tuned for the worlds
    of the training. Of a linker by vectors alone (`tuned` is None) NAME without names, and NAME-names by default."""
    if tuned is None:
        return {name: NO_NAMES, f"{name}-names": default}
    return {name: default, f"{name}-tuned": tuned}


def python(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    app()
