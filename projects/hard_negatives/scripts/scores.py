"""The score functions of Zhang & Stratos (2021) with random, mixed and hard negatives: runs and their table."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Hashable, Iterable
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import spacy
import srsly
import typer
from claims import Claim, table_of_claims
from numpy import mean
from thinc.api import Config

from spacy_pel import evaluate
from spacy_pel.cli.table import markdown, over_seeds
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.files.hashes import sha256
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.version import kb_version
from spacy_pel.search import scored_index

REGISTERED = {
    "dual": "DualScore",
    "multi": "MultiVectorScore",
    "som": "SumOfMax",
    "poly": "PolyEncoder",
    "genpoly": "GeneralPoly",
}
NAME = re.compile("(dual|som)|(multi|poly|genpoly)-([1-9][0-9]*)")
NCE = "dual-nce"  # the paper's dual-(10): its equation 10 corrects the bias of independent draws
SCORES = ("dual", NCE, "multi-8", "som", "poly-16", "genpoly-16")
ALL = ",".join(SCORES)
SHARES = {"random": 0, "mixed": 50, "hard": 100}
DRAWS = ("sample", "top")
IID = "iid"  # with replacement
RATES_FILE = Path("configs/rates.json")
COLUMNS = ("recall_at_1", "recall_at_64", "unseen_recall_at_1", "training_seconds", "mentions_per_second")
TRIAL = ("steps", "draw", "entities", "data")  # what cells have in common that a claim compares
CELL = ("score", "p", "rate", *TRIAL)  # and what runs of several seeds do
DIGEST = 8  # characters that tell one in a heading
PUBLISHED = {  # recall@64 of ZESHEL's validation and test worlds (table 1), or of the first only (appendix A), by score
    # function and per cent that are hard
    ("dual", 25): (92.18,),
    ("dual", 75): (92.24,),
    ("multi-8", 25): (92.74,),
    ("multi-8", 75): (93.41,),
    ("som", 25): (94.13,),
    ("som", 75): (94.37,),
    ("dual", 0): (91.08, 81.80),
    ("dual", 50): (91.75, 84.16),
    ("dual", 100): (91.99, 84.87),
    ("poly-16", 0): (91.05, 81.73),
    ("poly-16", 50): (92.18, 84.34),
    ("poly-16", 100): (92.08, 84.07),
    ("multi-8", 0): (91.13, 82.44),
    ("multi-8", 50): (92.76, 84.11),
    ("multi-8", 100): (92.35, 84.94),
    ("som", 0): (92.51, 87.62),
    ("som", 50): (94.66, 89.62),
    ("som", 100): (94.49, 88.68),
}
KINDS = {p: kind for kind, p in SHARES.items()}
CLAIMS = {
    f"{score}: {KINDS[p]} > random": Claim((score, p), ">", (score, 0)) for score, p in product(SCORES, KINDS) if p
} | {
    f"{KINDS[p]}: {first} {sign} {second}": Claim((first, p), sign, (second, p))
    for first, sign, second in (
        ("som", ">", "multi-8"),
        ("som", ">", "dual"),
        ("som", ">", "poly-16"),
        ("multi-8", "≈", "dual"),
        ("poly-16", "≈", "dual"),
    )
    for p in KINDS
}
SWEPT = {
    f"{score}: {p} % hard > random": Claim((score, p), ">", (score, 0)) for score, p in PUBLISHED if p not in KINDS
}

app = typer.Typer(help=__doc__)
Scores = Annotated[str, typer.Option(help="Score functions, with commas between")]
Steps = Annotated[int, typer.Option(help="Optimiser steps")]
Rate = Annotated[float, typer.Option(help=f"The highest learning rate; 0: that of {RATES_FILE}")]
Draw = Annotated[str, typer.Option(help="How hard ones are taken: sample (the paper), or top (its authors' code)")]
Seed = Annotated[int, typer.Option(help="Of the draws")]
Data = Annotated[str, typer.Option(help="Name of what `scores-data` has made")]
GPU = Annotated[int, typer.Option(help="-1: the CPU")]


@app.command()
def run(
    score: Annotated[str, typer.Argument(help=f"dual, {NCE}, multi-M, som, poly-M or genpoly-M")],
    p: Annotated[int, typer.Option(min=0, max=100, help="Per cent of the negatives that are hard")] = 50,
    draw: Draw = "sample",
    steps: Steps = 94,
    rate: Rate = 0.0,
    seed: Seed = 0,
    name: Data = "scores",
    gpu_id: GPU = -1,
    keep: Annotated[bool, typer.Option(help="Keep training/NAME/RUN/linker, for `candidates`")] = False,
) -> None:
    """Train, index, evaluate: metrics/NAME/SCORE-P-STEPS-RATE-SEED.json."""
    settings = settings_of(score, p, draw, steps, rate, seed, name)
    metrics = Path("metrics") / name / run_file(settings)
    folder = Path("training") / name / (run_name(settings) if keep else metrics.stem)
    seconds = train(folder, config_of(settings, name), gpu_id)
    command("pel", "index", folder / "model-last", kb_of(name), folder / "linker", "--gpu-id", gpu_id)
    raw = folder / "metrics.json"
    known = ("--train", corpus_of(name, "train"), "--output", raw, "--gpu-id", gpu_id)
    command("pel", "evaluate", folder / "linker", corpus_of(name, "dev"), *known)
    found: Any = srsly.read_json(raw)
    metrics.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(metrics, {**found, **settings, "training_seconds": seconds})
    clear(folder, ("linker",) if not keep else ())


@app.command("run-all")
def run_all(
    scores: Scores = ALL,
    shares: Annotated[str, typer.Option(help="Per cent that are hard, with commas between")] = "0,50,100",
    draw: Draw = "sample",
    steps: Steps = 94,
    rate: Rate = 0.0,
    seed: Seed = 0,
    name: Data = "scores",
    gpu_id: GPU = -1,
) -> None:
    """Score functions, each with several shares of hard negatives; what is there, with these settings and of this data,
    is not run again. With `--draw top` dual-nce is left out."""
    own = [score for score in scores.split(",") if score != NCE or draw == DRAWS[0]]  # its draws are independent
    for score, p in product(own, map(int, shares.split(","))):
        settings = settings_of(score, p, draw, steps, rate, seed, name)
        if is_there(Path("metrics") / name / run_file(settings), settings):
            typer.echo(f"{run_name(settings)}: is there")
        else:
            run(score, p, draw, steps, rate, seed, name, gpu_id)


@app.command()
def candidates(
    linker: Annotated[Path, typer.Argument(help="A linker that `run --keep` left")],
    output: Annotated[Path, typer.Argument(help="JSON file")],
    per_k: Annotated[str, typer.Option(help="Candidates, in multiples of the entities that are searched")] = "1,4,16",
    limit: Annotated[int, typer.Option(help="Documents; 0: all")] = 0,
    name: Data = "scores",
) -> None:
    """Recall when only the candidates of single vectors are scored, as beyond 20,000 entities, beside that of all."""
    nlp = spacy.load(linker)
    docs = list(read_docs(corpus_of(name, "dev"), nlp.vocab))[: limit or None]
    linker: Any = nlp.get_pipe("pel_linker")
    kb: KnowledgeBase = linker.kb
    rows = [["scored", "recall_at_1", "recall_at_64", "mentions a second"]]
    found: dict[str, Any] = {}
    for times in (0, *map(int, per_k.split(","))):
        linker.exact_up_to = 0 if times else len(kb)
        scored_index.CANDIDATES = times or scored_index.CANDIDATES
        what = f"candidates of single vectors, about {times} · k" if times else "all entities"
        metrics = evaluate(nlp, docs)
        found[what] = [metrics[key] for key in ("recall_at_1", "recall_at_64", "mentions_per_second")]
        rows.append([what, *"{:.4f} {:.4f} {:.1f}".format(*found[what]).split()])
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, found)
    typer.echo(f"Of {len(kb):,} entities:\n\n{markdown(rows)}")


@app.command()
def table(name: Data = "scores") -> None:
    """Write and print metrics/NAME/table.md: for each KB and corpora a row for each cell, over its seeds the mean, with
    the least and the greatest, beside what is published of ZESHEL; and whether what the paper found held, among cells
    of the same steps, each at its best rate."""
    found: list[Any] = [srsly.read_json(path) for path in (Path("metrics") / name).glob("*-*.json")]
    if not found:
        raise typer.BadParameter(f"metrics/{name} has no run: run scores or scores-all first")
    data = itemgetter("entities", "data")
    parts = [part(list(group)) for _, group in groupby(sorted(found, key=data), key=data)]
    write(Path("metrics") / name / "table.md", "\n".join(parts))


def part(found: list[Any]) -> str:
    """The tables of those runs that had the same KB and corpora."""
    order = {score: place for place, score in enumerate(SCORES)}

    def place(one: dict[str, Any]) -> tuple:
        return order.get(one["score"], len(order)), *(one[key] for key in CELL)

    rows = [["score", "negatives", "steps", "rate", "entities", "seeds", *COLUMNS, "ZESHEL"]]
    trials: dict[tuple, dict[Hashable, list[float]]] = {}
    for _, group in groupby(sorted(found, key=place), key=place):
        runs = list(group)
        one = runs[0]
        negatives = KINDS.get(one["p"], f"{one['p']} % hard") + (f", {one['draw']}" if one["draw"] != DRAWS[0] else "")
        cells = [one["score"], negatives, str(one["steps"]), f"{one['rate']:g}", f"{one['entities']:,}", str(len(runs))]
        cells += [over_seeds(key, [run[key] for run in runs]) for key in COLUMNS]
        what, recall = (one["score"], one["p"]), [run["recall_at_64"] for run in runs]
        trial = tuple(one[key] for key in TRIAL)
        measured = trials.setdefault(tuple(DRAWS[0] if part == IID else part for part in trial), {})
        measured[what] = max(measured.get(what, recall), recall, key=mean)
        rows.append([*cells, " / ".join(f"{percent:.1f}" for percent in PUBLISHED.get(what, ())) or "–"])
    one = found[0]
    text = f"## {one['n_mentions']:,} mentions, {one['entities']:,} entities (data {one['data'][:DIGEST]})\n\n"
    text += markdown(rows)
    for (steps, draw, *_), measured in trials.items():
        head = f"recall@64, {steps} steps, {draw}: Zhang & Stratos 2021"
        text += f"\n{table_of_claims(f'{head}, table 1', CLAIMS, measured)}"
        if any(p not in KINDS for _, p in measured):
            text += f"\n{table_of_claims(f'{head}, appendix A', SWEPT, measured)}"
    return text


def settings_of(score: str, p: int, draw: str, steps: int, rate: float, seed: int, name: str) -> dict[str, Any]:
    """What decides what a run finds."""
    kb = KnowledgeBase(kb_of(name))
    rate = rate or kept_rates()[kind_of(score)]
    if score == NCE:
        if draw != DRAWS[0]:
            raise typer.BadParameter(f"--draw {draw}: of {NCE} all draws are independent; leave it out")
        draw = IID
    own = {"score": score, "p": p, "draw": draw, "steps": steps, "rate": rate, "seed": seed}
    return own | {"entities": len(kb), "data": digest_of(kb, name)}


def digest_of(kb: KnowledgeBase, name: str) -> str:
    """What tells the KB, the corpora, the encoder and the settings of all runs from others."""
    weights = sorted(path for path in Path("assets/encoder").glob("*.*") if path.suffix in (".json", ".safetensors"))
    paths = (corpus_of(name, "train"), corpus_of(name, "dev"), Path("configs/scores.cfg"), *weights)
    parts = [kb_version(kb)["records"], *map(sha256, paths)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def is_there(metrics: Path, settings: dict[str, Any]) -> bool:
    """Whether a run with these settings has been measured."""
    if not metrics.is_file():
        return False
    found: Any = srsly.read_json(metrics)
    return settings.items() <= found.items()


def config_of(settings: dict[str, Any], name: str) -> Config:
    """The config of a run."""
    config = Config().from_disk("configs/scores.cfg", interpolate=False)
    linker = config["components"]["pel_linker"]
    linker["model"]["score"] = section_of(settings["score"])
    linker["negatives"] |= {"p": settings["p"], "draw": settings["draw"]}
    if settings["score"] == NCE:
        linker["loss"] = {"@misc": "spacy_pel.NCELoss.v1"}
    config["paths"] |= {split: str(corpus_of(name, split)) for split in ("train", "dev")} | {"kb": str(kb_of(name))}
    config["training"] |= {"seed": settings["seed"], "max_steps": settings["steps"]}
    config["training"]["optimizer"]["learn_rate"]["initial_rate"] = settings["rate"]
    return config


def section_of(score: str) -> dict[str, Any]:
    """The section of a config for "dual", "multi-8", "som", …"""
    named = NAME.fullmatch("dual" if score == NCE else score)
    if not named:
        raise typer.BadParameter(f"{score!r} is none of dual, {NCE}, multi-M, som, poly-M and genpoly-M")
    kind, m = named[1] or named[2], named[3]
    return {"@architectures": f"spacy_pel.{REGISTERED[kind]}.v1", **({"m": int(m)} if m else {})}


def kind_of(score: str) -> str:
    """A score function without its number."""
    section_of(score)
    return score if score == NCE else score.partition("-")[0]


def kept_rates(project: Path = Path()) -> dict[str, float]:
    """The rate of each kind of score function."""
    found: Any = srsly.read_json(project / RATES_FILE)
    return found


def run_name(settings: dict[str, Any]) -> str:
    """SCORE-P-SEED, or SCORE-P-top-SEED."""
    return f"{cell_name(settings)}-{settings['seed']}"


def run_file(settings: dict[str, Any]) -> str:
    """That with the steps and the rate: what was measured with others stays beside it."""
    return f"{cell_name(settings)}-{settings['steps']}-{settings['rate']:g}-{settings['seed']}.json"


def cell_name(settings: dict[str, Any]) -> str:
    draw = f"-{settings['draw']}" if settings["draw"] == DRAWS[1] else ""
    return f"{settings['score']}-{settings['p']}{draw}"


def corpus_of(name: str, split: str) -> Path:
    return Path("corpus") / f"{name}_{split}.spacy"


def kb_of(name: str) -> Path:
    return Path("assets") / f"{name}_kb"


def train(folder: Path, config: Config, gpu_id: int) -> float:
    """Train by a config, to FOLDER/model-last, and return the seconds.

    Raises:
        BadParameter: A linker of another config was kept there.
    """
    config["paths"]["steps"] = str(folder / "steps.jsonl")
    kept = folder / "train.cfg"
    if (folder / "linker").is_dir() and kept.is_file() and kept.read_text(encoding="utf-8") != config.to_str():
        raise typer.BadParameter(f"{folder / 'linker'} has other settings and was kept; move or remove it first")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config.to_disk(folder / "train.cfg")
    start = perf_counter()
    command("train", folder / "train.cfg", "--output", folder, "--gpu-id", gpu_id)
    return perf_counter() - start


def clear(folder: Path, more: Iterable[str] = ()) -> None:
    """Remove the pipelines of a run, but not its steps."""
    for part in ("model-last", "model-best", *more):
        shutil.rmtree(folder / part, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Write and print `text`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    typer.echo(text)


def command(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    app()
