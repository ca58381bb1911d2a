"""Linkers that were trained on few annotated abstracts, or on none, and the curve over their number."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import spacy as spacy_
import srsly
import typer
from thinc.api import Config

from spacy_pel.cli.table import markdown, over_seeds
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import gold_of

TUNED_ON = 5  # every fifth annotated abstract is kept for weights and the threshold, as `new-project` does
MEASURES = {
    "recall_at_1": "recall@1",
    "seen_recall_at_1": "recall@1 of seen ids",
    "unseen_recall_at_1": "recall@1 of unseen ids",
    "nil_auprc": "average precision of NIL",
}
COLUMNS = ("recall_at_1", "recall_at_5", "recall_at_64", *list(MEASURES)[1:])
BASELINES = {"baseline-exact-alias": "exact alias", "baseline-tfidf-long-forms": "TF-IDF with long forms"}

app = typer.Typer(help=__doc__)


@app.command()
def run(
    abstracts: Annotated[int, typer.Argument(help="Annotated abstracts to learn from; 0: the names of the KB alone")],
    learn: Annotated[bool, typer.Option(help="Train; else the encoder as it comes")] = True,
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 150,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Draw the abstracts, train, index, tune on those that training did not see, evaluate on the development split."""
    name = f"{abstracts if learn else 'untrained'}-{seed}"
    folder, gpu = Path("training") / name, ("--gpu-id", gpu_id)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tune = cut(abstracts, folder, seed)
    write_config(folder, abstracts, steps, seed)
    if learn:
        spacy("train", folder / "few.cfg", "--output", folder, *gpu)
    else:
        spacy("assemble", folder / "few.cfg", folder / "model-last")
    spacy("pel", "index", folder / "model-last", "kb", folder / "linker", *gpu)
    if learn:
        spacy("pel", "tune-lexical", folder / "linker", *tune, *gpu)
        if not tune or has_nil(tune[0], Path("kb")):  # else nothing is NIL
            spacy("pel", "tune-nil", folder / "linker", *tune, "--by-score", *gpu)
    metrics = Path("metrics") / f"{name}.json"
    known = ("--train", folder / "train.spacy") if abstracts else ()
    spacy("pel", "evaluate", folder / "linker", "corpus/dev.spacy", *known, "--output", metrics, *gpu)
    srsly.write_json(metrics, {**srsly.read_json(metrics), "abstracts": abstracts, "steps": steps * learn})
    for part in ("linker", "model-best"):
        shutil.rmtree(folder / part, ignore_errors=True)


@app.command()
def names(
    abstracts: Annotated[str, typer.Option(help="Numbers of annotated abstracts")] = "10,25,50,100,250,500",
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Nothing trained and nothing tuned: the encoder as it comes, and what the annotated abstracts call an entity
    becomes a name of it."""
    folder, gpu = Path("training") / f"names-{seed}", ("--gpu-id", gpu_id)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_config(folder, 0, 1, seed)  # a schedule has steps, though none is taken
    spacy("assemble", folder / "few.cfg", folder / "model-last")
    spacy("pel", "index", folder / "model-last", "kb", folder / "linker", *gpu)
    for number in sorted(map(int, abstracts.split(","))):
        write_docs(folder / "train.spacy", drawn_abstracts(number, seed))
        spacy("pel", "kb", "learn-names", folder / "linker", folder / "train.spacy", *gpu)
        metrics = Path("metrics") / f"names-{number}-{seed}.json"
        known = ("--train", folder / "train.spacy")
        spacy("pel", "evaluate", folder / "linker", "corpus/dev.spacy", *known, "--output", metrics, *gpu)
        srsly.write_json(metrics, {**srsly.read_json(metrics), "abstracts": number, "steps": 0})
    shutil.rmtree(folder / "linker")


def write_config(folder: Path, abstracts: int, steps: int, seed: int) -> None:
    """Write FOLDER/few.cfg; of no abstracts for names of the KB alone."""
    config = Config().from_disk("configs/few.cfg", interpolate=False)
    if not abstracts:
        config["corpora"]["train"] = config["corpora"]["train"]["aliases"]
    config["system"]["seed"], config["training"]["max_steps"] = seed, steps
    config["paths"]["train"] = str(folder / "train.spacy")
    config.interpolate().to_disk(folder / "few.cfg")  # `assemble` reads [training.optimizer] as it is written


def drawn_abstracts(abstracts: int, seed: int) -> list[Any]:
    """So many annotated abstracts. More hold all that fewer do."""
    docs = list(read_docs(Path("corpus/train.spacy"), spacy_.blank("en").vocab))
    random.Random(seed).shuffle(docs)
    return docs[:abstracts]


def cut(abstracts: int, folder: Path, seed: int) -> list[Path]:
    """Write FOLDER/train.spacy, and what to tune on if so many abstracts are enough for both."""
    if not abstracts:
        return []
    docs = drawn_abstracts(abstracts, seed)
    held_out = docs[TUNED_ON - 1 :: TUNED_ON]
    write_docs(folder / "train.spacy", [doc for doc in docs if doc not in held_out])
    if not held_out:
        return []
    write_docs(folder / "tune.spacy", held_out)
    return [folder / "tune.spacy"]


def has_nil(corpus: Path, kb: Path) -> bool:
    """Whether the KB lacks the entity of a mention of the corpus."""
    known = KnowledgeBase(kb)
    mentions = gold_of(read_docs(corpus, spacy_.blank("en").vocab), known)
    return any(mention.ids and not any(id_ in known for id_ in mention.ids) for mention in mentions)


@app.command()
def figure(
    metrics: Annotated[Path, typer.Argument(help="Folder of the runs' JSON files")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Draw recall@1 and NIL over the number of annotated abstracts, and write METRICS/table.md: of several seeds the
    mean, the least and the greatest."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    runs: dict[str, Any] = {path.stem: srsly.read_json(path) for path in metrics.glob("*.json")}
    trained: dict[int, list[Any]] = defaultdict(list)
    named: dict[int, list[Any]] = defaultdict(list)  # nothing trained, and their names learnt
    for name, one in runs.items():
        if one.get("steps") or name.startswith("names"):
            (trained if one["steps"] else named)[one["abstracts"]].append(one)
    numbers = sorted(trained)
    lines = {"untrained, no annotation": [one for name, one in runs.items() if name.startswith("untrained")]}
    lines |= {label: [runs[name]] for name, label in BASELINES.items()}
    drawn = Figure(figsize=(11, 4.5), layout="constrained")
    recall, nil = drawn.subplots(1, 2)
    for number, (key, label) in enumerate(MEASURES.items()):
        values = {n: own for n in numbers if (own := [one[key] for one in trained[n] if one[key] is not None])}
        axes, colour = nil if key.startswith("nil") else recall, f"C{number}"
        axes.plot(list(values), list(map(mean, values.values())), "o-", color=colour, label=label)
        bounds = [list(map(bound, values.values())) for bound in (min, max)]
        axes.fill_between(list(values), *bounds, color=colour, alpha=0.2)
    for axes, key in ((recall, "recall_at_1"), (nil, "nil_auprc")):
        means = [mean(one[key] for one in named[n]) for n in sorted(named)]
        axes.plot(sorted(named), means, "s--", color="black", label="names learnt, nothing trained")
    for number, (label, own) in enumerate(lines.items()):
        if own:
            style = {"color": f"C{number + len(MEASURES)}", "linestyle": ":"}
            recall.axhline(mean(one["recall_at_1"] for one in own), label=label, **style)
            nil.axhline(mean(one["nil_auprc"] for one in own), label=label, **style)
    for axes in (recall, nil):
        axes.set_xscale("symlog", linthresh=10)
        axes.set(xlabel="annotated abstracts", xticks=numbers, xlim=(-2, 1.3 * max(numbers, default=1)))
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_figure(drawn, output)
    rows = {str(n): trained[n] for n in numbers}
    rows |= {f"{n}, names learnt, nothing trained": named[n] for n in sorted(named)} | lines
    table = [["annotated abstracts", "seeds", *COLUMNS]]
    table += [
        [label, str(len(own)), *(over_seeds(key, (one[key] for one in own)) for key in COLUMNS)]
        for label, own in rows.items()
    ]
    text = markdown(table)
    (metrics / "table.md").write_text(text, encoding="utf-8")
    typer.echo(text)


def spacy(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    app()
