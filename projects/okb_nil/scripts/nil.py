"""Runs that differ in loss and margin, and NIL by all that a search says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import spacy as spacy_
import srsly
import typer

from spacy_pel import evaluate
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.pipeline.tuning import find_for_gold
from spacy_pel.search.parts import NAMES
from spacy_pel.tuning.name_weights import fit_weights

N_NEGATIVES = 8  # of a mention, half of them hard

app = typer.Typer(help=__doc__)


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Of the run: training/NAME-SEED, metrics/NAME-SEED.json")],
    loss: Annotated[str, typer.Option(help="One of ../shared/vary.py")] = "pb",
    margin: Annotated[float, typer.Option(help="Of the proxy-based loss")] = 0.0,
    origin: Annotated[str, typer.Option(help="Of the proxy-based loss: a cosine, or auto")] = "0",
    rate: Annotated[float, typer.Option(help="The highest learning rate")] = 2e-4,
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 540,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train, index, tune NIL on corpus/dev.spacy, evaluate on corpus/test.spacy. NIL is told by the best score, as in
    the paper."""
    folder = Path("training") / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "train.cfg"
    objective = ("--loss", loss, "--margin", margin, "--origin", origin, "--n", N_NEGATIVES, "--rate", rate)
    python("../shared/vary.py", "configs/train.cfg", config, *objective)
    gpu = ("--gpu-id", gpu_id)
    spacy("train", config, "--output", folder, "--training.max_steps", steps, "--training.seed", seed, *gpu)
    spacy("pel", "index", folder / "model-last", "kb", folder / "linker", "--force", *gpu)
    spacy("pel", "tune-nil", folder / "linker", "corpus/dev.spacy", "--by-score", *gpu)
    metrics = Path("metrics") / f"{name}-{seed}.json"
    measures = ("--train", "corpus/train.spacy", "--output", metrics)
    spacy("pel", "evaluate", folder / "linker", "corpus/test.spacy", *measures, *gpu)
    settings = {"loss": loss, "margin": margin, "origin": origin, "rate": rate, "steps": steps}
    files = ("configs/train.cfg", *(f"corpus/{part}.spacy" for part in ("train", "dev", "test")))
    python("../shared/note_settings.py", metrics, srsly.json_dumps(settings), "kb", "assets/encoder", *files)


@app.command()
def decide(
    linker: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    output: Annotated[Path, typer.Argument(help="Folder for by-score.json, by-all.json, and the same with -swapped")],
    names: Annotated[bool, typer.Option(help="With names and long forms; else vectors alone count")] = True,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Tuned on corpus/dev.spacy: NIL on corpus/test.spacy by the best score alone, and by all that a search says of a
    mention; then the other way round."""
    if gpu_id >= 0:
        spacy_.require_gpu(gpu_id)
    settings = {"lexical": "tuned" if names else None, "resolve_abbreviations": names}
    nlp = spacy_.load(linker, config={"components": {"pel_linker": settings}})
    own: Any = nlp.get_pipe("pel_linker")
    dev, test, train = (
        list(read_docs(Path("corpus") / f"{part}.spacy", nlp.vocab)) for part in ("dev", "test", "train")
    )
    output.mkdir(parents=True, exist_ok=True)
    for tuned_on, measured_on, swapped in ((dev, test, ""), (test, dev, "-swapped")):
        if names:
            own.tune_names(tuned_on, progress=True)
        elif own.vectors == "both":
            own.lexical = fit_weights(find_for_gold(own, tuned_on, progress=True), [NAMES]).as_setting()
        with searched_once(own):
            for name, by_score in ((f"by-score{swapped}", True), (f"by-all{swapped}", False)):
                found = own.tune_nil(tuned_on, by_score=by_score, progress=True)
                measured = evaluate(nlp, measured_on, train=train, progress=True)
                srsly.write_json(output / f"{name}.json", measured)
                shown = {key: measured[key] for key in ("nil_auprc", "nil_f1", "link_ece")}
                typer.echo(f"{name}: {shown}, F1 on other documents of what was tuned on {found.elsewhere}")


@contextmanager
def searched_once(linker: Any) -> Iterator[None]:
    """Within it the linker searches spans once, whatever is then decided on what it has found."""
    find, known = linker.find, {}

    def once(spans: Any, k: int) -> Any:
        key = k, tuple((id(span.doc), span.start, span.end) for span in spans)
        if key not in known:
            known[key] = find(spans, k)
        return known[key]

    with patch.object(linker, "find", once):
        yield


def spacy(*arguments: object) -> None:
    python("-m", "spacy", *arguments)


def python(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    app()
