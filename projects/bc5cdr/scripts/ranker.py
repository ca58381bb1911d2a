"""Rankers, trained in several ways, and what each adds to its linker."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from thinc.api import Config
from tqdm import tqdm

from spacy_pel.components import find_linker
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import find_mentions
from spacy_pel.files.parts import write_state
from spacy_pel.mentions.gold import gold_of
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.pipeline.ranker_tuning import Ranking, fit_ranker, keep
from spacy_pel.pipeline.ranking import scores_of
from spacy_pel.pipeline.saving import learnt_state
from spacy_pel.tuning.calibration import calibration_metrics
from spacy_pel.tuning.ranking import RankTuned, is_doubtful

COUNTED = ("n_mentions", "n_in_kb", "recall_at_1", "recall_at_5", "recall_at_16", "recall_at_64", "seen_recall_at_1")
KEYS = (*COUNTED, "unseen_recall_at_1", "nil_auprc", "nil_base_rate")
DEPTH = 64
GAIN = 0.95
SHARES = (0.0, 0.1, 0.3, 0.5, 1.0)

app = typer.Typer(help=__doc__)


@app.command()
def train(
    linker: Annotated[Path, typer.Argument(help="A pipeline with the linker: trained, indexed, tuned")],
    output: Annotated[Path, typer.Argument(help="Folder for the trained pipelines")],
    top_n: Annotated[int, typer.Option(help="Candidates of a mention")] = 16,
    pooling: Annotated[
        str, typer.Option(help="mean, cls, or pooler: that of Zhang & Stratos 2021's joint encoder")
    ] = "mean",
    lengths: Annotated[str, typer.Option(help="Longest part of a mention, and of an entity")] = "64,48",
    rows: Annotated[str, typer.Option(help="pairs, or mentions for one row with all candidates")] = "pairs",
    aliases: Annotated[str, typer.Option(help="first, or nearest for those like the mention first")] = "nearest",
    names: Annotated[float, typer.Option(help="Names of the KB for each mention, half of them in texts")] = 0.0,
    from_linker: Annotated[bool, typer.Option(help="Begin with the linker's encoder of mentions")] = False,
    fgsm: Annotated[float, typer.Option(help="epsilon; 0: without")] = 0.0,
    layer: Annotated[str, typer.Option(help="What FGSM steps on: sum, or normalised, behind the LayerNorm")] = "sum",
    tokens: Annotated[str, typer.Option(help="Of a row: entity, or all")] = "entity",
    steps: Annotated[int, typer.Option(help="Optimiser steps")] = 1160,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Train a ranker behind a linker, by configs/ranker.cfg with these changes."""
    config = Config().from_disk("configs/ranker.cfg", interpolate=False)
    config["paths"] |= {"linker": str(linker), "candidates": "corpus/candidates.jsonl"}
    ranker = config["components"]["pel_ranker"]
    mention_length, entity_length = map(int, lengths.split(","))
    ranker["top_n"] = top_n
    ranker["model"] |= {"pooling": pooling, "rows": rows, "aliases": aliases}
    ranker["model"] |= {"mention_length": mention_length, "entity_length": entity_length}
    config["corpora"]["train"]["ratio"] = names
    if from_linker:
        del config["initialize"]["components"]["pel_ranker"]["encoder_loader"]
    adversarial = {"@misc": "spacy_pel.FGSM.v1", "epsilon": fgsm, "layer": layer, "tokens": tokens}
    ranker["adversarial"] = adversarial if fgsm else None
    config["training"]["max_steps"] = config["training"]["eval_frequency"] = steps  # only the last model is of use
    config["system"]["seed"] = seed
    output.mkdir(parents=True, exist_ok=True)
    config.to_disk(output / "ranker.cfg")
    command = ["train", output / "ranker.cfg", "--output", output, "--gpu-id", gpu_id]
    if code := subprocess.run([sys.executable, "-m", "spacy", *map(str, command)]).returncode:
        raise typer.Exit(code)  # it has said why


@app.command()
def measure(
    pipeline: Annotated[Path, typer.Argument(help="With a linker and a ranker")],
    corpus: Annotated[Path, typer.Argument(help=".spacy with gold mentions")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    known: Annotated[Path, typer.Option(help="The training corpus, which tells seen ids")],
    other: Annotated[Path | None, typer.Option(help="Another corpus: tuned on all of CORPUS")] = None,
    gain: Annotated[float, typer.Option(help="The share of the gain for the last row")] = GAIN,
    limit: Annotated[int, typer.Option(help="Documents of CORPUS; 0: all")] = 0,
) -> None:
    """Tune on every second document and measure on the others, and the other way round: recall and NIL of the linker,
    of the ranker's scores alone, of both, and of both where no more mentions are ranked than most of the gain needs;
    the curve of recall@1 over that share. `normalised_accuracy` is over those mentions whose entity is among the
    candidates that the ranker is given. PIPELINE keeps what is tuned on all of CORPUS."""
    nlp = spacy.load(pipeline)
    component, linker = find_linker(nlp)
    ranker: Any = nlp.get_pipe("pel_ranker")
    docs = list(read_docs(corpus, nlp.vocab))[: limit or None]
    seen = {id_ for mention in gold_of(read_docs(known, nlp.vocab), linker.kb) for id_ in mention.ids}
    mentions, found, scores, seconds = scored(linker, ranker, docs)
    number = {id(doc): i for i, doc in enumerate(docs)}
    parity = np.array([number[id(mention.span.doc)] % 2 for mention in mentions])
    nil = np.array([not any(id_ in linker.kb for id_ in mention.ids) for mention in mentions])
    tells_nil = all(0 < nil[parity == side].mean() < 1 for side in (0, 1))
    if not tells_nil:
        typer.echo("A half lacks NIL mentions, or others: NIL is not tuned, and all mentions are ranked", err=True)
    rows: dict[str, list[RankedMention]] = {}
    shares, curves = [], []
    for side in tqdm((0, 1), desc="Halves"):
        if tells_nil:
            linker.tune_nil([doc for i, doc in enumerate(docs) if i % 2 == side])
        ranking = Ranking(mentions, linker.links(found), scores)
        inside, outside = (ranking.take(np.flatnonzero(own)) for own in (parity == side, parity != side))
        tuned, told = fit_ranker(inside, linker.kb, gain if tells_nil else None)
        shares.append(float(np.mean([is_doubtful(link, tuned.rerank_below) for link in outside.links])))
        curves.append([one._asdict() for one in told.costs])
        ranked = {name: outside.ranked(own) for name, own in ways(tuned).items()}
        ranked["both, where needed"] = outside.ranked(tuned)
        for name, own in ranked.items():
            rows.setdefault(name, []).extend(own)
    tables = {"": {name: measures(own, linker.kb, seen, ranker.top_n) for name, own in rows.items()}}
    if tells_nil:
        linker.tune_nil(docs)
    tuned, _ = fit_ranker(Ranking(mentions, linker.links(found), scores), linker.kb)
    keep(ranker, tuned)
    write_state(pipeline / component, learnt_state(linker))
    write_state(pipeline / "pel_ranker", ranker.tuned.to_dict())
    if other is not None:
        mentions, found, scores, _ = scored(linker, ranker, list(read_docs(other, nlp.vocab)))
        there = Ranking(mentions, linker.links(found), scores)
        tables[other.stem] = {
            name: measures(there.ranked(own), linker.kb, seen, ranker.top_n) for name, own in ways(tuned).items()
        }
    result = {"mentions_per_second": len(parity) / seconds, "share": float(np.mean(shares)), "curves": curves}
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, result | {"rows": tables})
    for title, table in tables.items():
        typer.echo(title)
        for name, one in table.items():
            typer.echo(name + " " + " ".join(f"{key} {value:.4f}" for key, value in one.items() if value is not None))
    typer.echo(f"{result['mentions_per_second']:.1f} mentions a second, {result['share']:.3f} ranked where needed")


@app.command()
def speed(
    pipeline: Annotated[Path, typer.Argument(help="With a linker that has probabilities, and a ranker that is tuned")],
    corpus: Annotated[Path, typer.Argument(help=".spacy with gold mentions")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    n_docs: Annotated[int, typer.Option("--docs", help="Documents of CORPUS, from the first on; 0: all")] = 60,
) -> None:
    """Mentions a second through `nlp.pipe`, and recall@1, where shares of the mentions are ranked anew, least sure
    first. The last row, of a ranker that reads the mean, has all candidates of a mention in one row: its weights are
    the same, which learnt from pairs, so only its time counts."""
    nlp = spacy.load(pipeline)
    _, linker = find_linker(nlp)
    ranker: Any = nlp.get_pipe("pel_ranker")
    gold = list(read_docs(corpus, nlp.vocab))[: n_docs or None]
    number = {id(doc): i for i, doc in enumerate(gold)}
    ids_of = {(number[id(one.span.doc)], one.span.start): one.ids for one in gold_of(gold, linker.kb) if one.ids}

    def linked(below: float | None) -> tuple[float, list[Any]]:
        """The mentions that `nlp.pipe` links a second, and the Docs."""
        ranker.rerank_below = below
        docs = [doc.copy() for doc in gold]
        start = perf_counter()
        docs = list(nlp.pipe(docs))
        return sum(len(doc.ents) for doc in docs) / (perf_counter() - start), docs

    def row(share: float) -> dict[str, float]:
        """What is reached where that share of the mentions is ranked anew."""
        rate, docs = linked(None if share == 1 else float(np.quantile(sure, share)))
        best = {(i, ent.start): ent._.kb_ents[0][0] for i, doc in enumerate(docs) for ent in doc.ents if ent._.kb_ents}
        right = [best.get(place) in ids for place, ids in ids_of.items() if any(id_ in linker.kb for id_ in ids)]
        return {"share": share, "recall_at_1": float(np.mean(right)), "mentions_per_second": rate}

    sure = [ent._.kb_prob for doc in linked(0.0)[1] for ent in doc.ents if ent._.kb_ents]
    if None in sure:
        raise typer.BadParameter(f"{pipeline}: its linker has no probabilities; run `spacy pel tune-nil` first")
    linked(None)  # warms up
    rows = {"pairs": [row(share) for share in tqdm(SHARES, desc="Shares")]}
    settings = ranker.model.attrs["settings"]
    if settings["pooling"] == "mean":
        settings["rows"] = "mentions"
        rows["mentions"] = [row(1.0)]
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, {"n_mentions": len(sure), "rows": rows})
    for kind, own in rows.items():
        for one in own:
            typer.echo(kind + " " + " ".join(f"{key} {value:.4g}" for key, value in one.items()))


@app.command()
def figure(
    metrics: Annotated[Path, typer.Argument(help="Folder of what `measure` wrote")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Draw recall@1 over the share of the mentions that is ranked anew, least sure first; the mean of both halves."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    paths = sorted(metrics.glob("*.json"))
    if not paths:
        raise typer.BadParameter(f"{metrics} has no measurements; run `ranker` first")
    drawn = Figure(figsize=(6, 4), layout="constrained")
    axes = drawn.subplots()
    for path in paths:
        halves = np.array([[(p["share"], p["recall_at_1"]) for p in half] for half in srsly.read_json(path)["curves"]])
        axes.plot(*halves.mean(axis=0).T, "o-", label=path.stem)
    axes.set(xlabel="share of the mentions ranked anew", ylabel="recall@1")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    save_figure(drawn, output)


def scored(linker: Any, ranker: Any, docs: list[Any]) -> tuple[list[Any], list[Any], list[Any], float]:
    """The annotated mentions of `docs`, what the linker finds, what its first candidates score, and the seconds that
    the last took."""
    mentions = [mention for mention in gold_of(docs, linker.kb) if mention.ids]
    found = [one.found for one in find_mentions(lambda spans: linker.find(spans, DEPTH), mentions, progress=True)]
    start = perf_counter()
    scores = scores_of(ranker, [one.span for one in mentions], linker.links(found), progress=True)
    return mentions, found, scores, perf_counter() - start


def ways(tuned: RankTuned) -> dict[str, RankTuned | None]:
    """What decides on the order, by name."""
    return {"linker": None, "ranker alone": RankTuned(), "both": replace(tuned, rerank_below=None)}


def measures(ranked: list[RankedMention], kb: Any, seen: set[str], top_n: int) -> dict[str, Any]:
    """Recall, also over the mentions whose entity is among their first `top_n`, NIL and probabilities."""
    metrics = link_metrics(ranked, kb, nil_threshold=None, train_ids=seen)
    has_probabilities = any(mention.probability is not None for mention in ranked)
    ece = calibration_metrics(ranked)["link_ece"] if has_probabilities else None
    offered = [mention.rank == 1 for mention in ranked if mention.rank <= top_n]
    accuracy = float(np.mean(offered)) if offered else None
    return {key: metrics[key] for key in KEYS} | {"normalised_accuracy": accuracy, "link_ece": ece}


if __name__ == "__main__":
    app()
