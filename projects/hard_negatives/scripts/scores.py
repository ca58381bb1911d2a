"""The score functions of Zhang & Stratos (2021) with random, mixed and hard negatives: data, runs and their table."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated, Any

import spacy
import srsly
import typer
from thinc.api import Config

from spacy_pel import evaluate
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions
from spacy_pel.search import scored_index

REGISTERED = {
    "dual": "DualScore",
    "multi": "MultiVectorScore",
    "som": "SumOfMax",
    "poly": "PolyEncoder",
    "genpoly": "GeneralPoly",
}
SCORES = ("dual", "multi-8", "som", "poly-16", "genpoly-16")
SHARES = {"random": 0, "mixed": 50, "hard": 100}
METRICS = Path("metrics/scores")
COLUMNS = ("recall_at_1", "recall_at_64", "unseen_recall_at_1", "training_seconds", "mentions_per_second")

app = typer.Typer(help=__doc__)
Steps = Annotated[int, typer.Option(help="Optimiser steps")]
Rate = Annotated[float, typer.Option(help="The highest learning rate")]
Seed = Annotated[int, typer.Option(help="Of the draws")]
GPU = Annotated[int, typer.Option(help="-1: the CPU")]


@app.command()
def data(
    project: Annotated[Path, typer.Argument(help="The project bc5cdr, after its commands `fetch` and `convert`")],
    kb: Annotated[Path, typer.Argument(help="KB folder")],
    mentions: Annotated[int, typer.Option(help="Training mentions")] = 3000,
    dev_mentions: Annotated[int, typer.Option(help="Development mentions")] = 1500,
    seed: Seed = 0,
) -> None:
    """Write corpus/scores_train.spacy and corpus/scores_dev.spacy: mentions whose entities are in the KB, drawn."""
    for split, most in (("train", mentions), ("dev", dev_mentions)):
        docs = list(read_docs(project / "corpus" / f"{split}.spacy", spacy.blank("en").vocab))
        found = [(number, mention) for number, doc in enumerate(docs) for mention in gold_mentions(doc)]
        known = KnowledgeBase(kb).rows({id_ for _, mention in found for id_ in mention.ids}).keys()
        left = [(number, mention.span) for number, mention in found if not known.isdisjoint(mention.ids)]
        chosen = Random(seed).sample(left, min(most, len(left)))
        for number, doc in enumerate(docs):
            doc.spans[GOLD_GROUP] = [span for own, span in chosen if own == number]
        write_docs(Path("corpus") / f"scores_{split}.spacy", [doc for doc in docs if doc.spans[GOLD_GROUP]])
        typer.echo(f"{split}: {len(chosen):,} of {len(left):,} mentions")


@app.command()
def run(
    score: Annotated[str, typer.Argument(help="dual, multi-M, som, poly-M or genpoly-M")],
    p: Annotated[int, typer.Option(help="Per cent of the negatives that are hard")] = 50,
    steps: Steps = 94,
    rate: Rate = 1e-4,
    seed: Seed = 0,
    gpu_id: GPU = -1,
    keep: Annotated[bool, typer.Option(help="Keep training/NAME/linker, for `candidates`")] = False,
) -> None:
    """Train, index, evaluate: metrics/scores/SCORE-P-SEED.json."""
    name = f"{score}-{p}-{seed}"
    folder, metrics = Path("training") / name, METRICS / f"{name}.json"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    metrics.parent.mkdir(parents=True, exist_ok=True)
    config = Config().from_disk("configs/scores.cfg", interpolate=False)
    linker = config["components"]["pel_linker"]
    linker["model"]["score"] = section_of(score)
    linker["negatives"]["p"] = p
    config["paths"]["steps"] = str(folder / "steps.jsonl")
    config["training"] |= {"seed": seed, "max_steps": steps}
    config["training"]["optimizer"]["learn_rate"]["initial_rate"] = rate
    config.to_disk(folder / "train.cfg")
    start = perf_counter()
    command("train", folder / "train.cfg", "--output", folder, "--gpu-id", gpu_id)
    seconds = perf_counter() - start
    command("pel", "index", folder / "model-last", "assets/scores_kb", folder / "linker", "--gpu-id", gpu_id)
    known = ("--train", "corpus/scores_train.spacy", "--output", metrics, "--gpu-id", gpu_id)
    command("pel", "evaluate", folder / "linker", "corpus/scores_dev.spacy", *known)
    found: Any = srsly.read_json(metrics)
    srsly.write_json(
        metrics, {"score": score, "p": p, **found, "steps": steps, "rate": rate, "training_seconds": seconds}
    )
    for part in ("model-last", "model-best", *(() if keep else ("linker",))):
        shutil.rmtree(folder / part, ignore_errors=True)


@app.command("run-all")
def run_all(steps: Steps = 94, rate: Rate = 1e-4, seed: Seed = 0, gpu_id: GPU = -1) -> None:
    """All score functions, each with random, mixed and hard negatives; what is there is not run again."""
    for score, p in product(SCORES, SHARES.values()):
        if not (METRICS / f"{score}-{p}-{seed}.json").exists():
            run(score, p, steps, rate, seed, gpu_id)


@app.command()
def candidates(
    linker: Annotated[Path, typer.Argument(help="A linker that `run --keep` left")],
    output: Annotated[Path, typer.Argument(help="JSON file")],
    per_k: Annotated[str, typer.Option(help="Candidates, in multiples of the entities that are searched")] = "1,4,16",
) -> None:
    """Recall when only the candidates of single vectors are scored, as beyond 20,000 entities, beside that of all."""
    nlp = spacy.load(linker)
    docs = list(read_docs(Path("corpus/scores_dev.spacy"), nlp.vocab))
    lines = ["| scored | recall_at_1 | recall_at_64 | mentions a second |", "| --- | ---: | ---: | ---: |"]
    found: dict[str, Any] = {}
    for times in (0, *map(int, per_k.split(","))):
        if times:
            scored_index.EXACT_UP_TO, scored_index.CANDIDATES = 0, times
        what = f"candidates of single vectors, about {times} · k" if times else "all entities"
        metrics = evaluate(nlp, docs)
        found[what] = [metrics[key] for key in ("recall_at_1", "recall_at_64", "mentions_per_second")]
        lines.append("| {} | {:.4f} | {:.4f} | {:.1f} |".format(what, *found[what]))
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, found)
    typer.echo("\n".join(lines))


@app.command()
def table() -> None:
    """Write and print metrics/scores/table.md: a row a run."""
    order = {name: place for place, name in enumerate(SCORES)}
    found: list[Any] = [srsly.read_json(path) for path in METRICS.glob("*-*-*.json")]
    found.sort(key=lambda one: (order.get(one["score"], len(order)), one["score"], one["p"]))
    names = {p: name for name, p in SHARES.items()}
    lines = ["| score | negatives | steps | " + " | ".join(COLUMNS) + " |", "| --- | --- |" + " ---: |" * 6]
    for one in found:
        cells = ["–" if one[key] is None else f"{one[key]:.3f}" for key in COLUMNS[:3]]
        cells += [f"{one[key]:,.0f}" for key in COLUMNS[3:]]
        negatives = names.get(one["p"], f"{one['p']} % hard")
        lines.append(f"| {one['score']} | {negatives} | {one['steps']} | {' | '.join(cells)} |")
    (METRICS / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo("\n".join(lines))


def section_of(score: str) -> dict[str, Any]:
    """The section of a config for "dual", "multi-8", "som", …"""
    kind, _, m = score.partition("-")
    if kind not in REGISTERED or bool(m) != (kind not in ("dual", "som")):
        raise typer.BadParameter(f"{score!r} is none of dual, multi-M, som, poly-M and genpoly-M")
    return {"@architectures": f"spacy_pel.{REGISTERED[kind]}.v1", **({"m": int(m)} if m else {})}


def command(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], check=True)


if __name__ == "__main__":
    app()
