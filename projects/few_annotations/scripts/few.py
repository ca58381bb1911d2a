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

from spacy_pel.cli.table import check_seeds, markdown, over_seeds, read_metrics
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.errors import PelError
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
    note(metrics, abstracts, steps * learn)
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
        note(metrics, number, 0)
    shutil.rmtree(folder / "linker")


def note(metrics: Path, abstracts: int, steps: int) -> None:
    """Write into METRICS how much was learnt from, and what else tells runs of other settings from other seeds."""
    own = {"abstracts": abstracts, "steps": steps}
    srsly.write_json(metrics, srsly.read_json(metrics) | own)
    files = ("configs/few.cfg", "corpus/train.spacy", "corpus/dev.spacy")
    python("../shared/note_settings.py", metrics, srsly.json_dumps(own), "kb", "assets/encoder", *files)


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

    try:
        runs = seeds_of(metrics)
    except PelError as error:
        typer.secho(f"✘ {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    trained, named = ({n: own for (kind, n), own in runs.items() if kind == one} for one in ("trained", "names"))
    numbers = sorted(trained)
    lines = {"untrained, no annotation": runs.get(("untrained", 0), [])}
    lines |= {label: runs[name, 0] for name, label in BASELINES.items()}
    drawn = Figure(figsize=(11, 4.5), layout="constrained")
    recall, nil = drawn.subplots(1, 2)
    for number, (key, label) in enumerate(MEASURES.items()):
        values = {n: own for n in numbers if (own := [one[key] for one in trained[n] if one[key] is not None])}
        axes, colour = nil if key.startswith("nil") else recall, f"C{number}"
        axes.plot(list(values), list(map(mean, values.values())), "o-", color=colour, label=label)
        bounds = [list(map(bound, values.values())) for bound in (min, max)]
        axes.fill_between(list(values), *bounds, color=colour, alpha=0.2)
    for axes, key in ((recall, "recall_at_1"), (nil, "nil_auprc")):
        means = {n: own for n in sorted(named) if (own := average(key, named[n])) is not None}
        axes.plot(list(means), list(means.values()), "s--", color="black", label="names learnt, nothing trained")
    for number, (label, own) in enumerate(lines.items()):
        if own:
            style = {"color": f"C{number + len(MEASURES)}", "linestyle": ":"}
            for axes, key in ((recall, "recall_at_1"), (nil, "nil_auprc")):
                if (value := average(key, own)) is not None:
                    axes.axhline(value, label=label, **style)
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


def seeds_of(metrics: Path) -> dict[tuple[str, int], list[Any]]:
    """The runs of each kind and number of abstracts. Kinds are trained, names (nothing trained, and those learnt),
    untrained, and each baseline.

    Raises:
        PelError: There is none, or some differ in more than their seed.
    """
    found: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for name, one in read_metrics(metrics).items():
        kind = "trained" if one.get("steps") else name if name in BASELINES else name.partition("-")[0]
        found[kind, one.get("abstracts", 0)][name] = one
    if missing := BASELINES.keys() - {kind for kind, _ in found}:
        raise PelError(f"{metrics} has no {min(missing)}.json: run baselines first")
    for seeds in found.values():
        check_seeds(seeds)
    return {key: list(seeds.values()) for key, seeds in found.items()}


def average(key: str, runs: list[Any]) -> float | None:
    """The mean of a measure over the runs that have it."""
    values = [one[key] for one in runs if one[key] is not None]
    return mean(values) if values else None


def spacy(*arguments: object) -> None:
    python("-m", "spacy", *arguments)


def python(*arguments: object) -> None:
    if code := subprocess.run([sys.executable, *map(str, arguments)]).returncode:
        raise typer.Exit(code)  # it has said why


if __name__ == "__main__":
    app()
