"""The score functions and a joint encoder as rerankers of one retriever (Zhang & Stratos 2021, appendix B)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from claims import Claim, table_of_claims
from scores import (
    DIGEST,
    GPU,
    NCE,
    SCORES,
    Data,
    Rate,
    Seed,
    Steps,
    clear,
    command,
    config_of,
    corpus_of,
    digest_of,
    is_there,
    kb_of,
    kind_of,
    settings_of,
    train,
    write,
)
from spacy.util import minibatch
from thinc.api import Config

from spacy_pel.cli.table import markdown, over_seeds
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.evaluation.ranking import find_mentions
from spacy_pel.files.atomic import write_lines
from spacy_pel.files.hashes import sha256
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GoldMention, gold_of
from spacy_pel.models.cross_encoder import score_pairs
from spacy_pel.models.encoding import UNREADABLE, encode_entities, encode_spans, similarities
from spacy_pel.training.distillation import mention_key

JOINT = "joint"
# The mean of all states in place of the pooler, and candidates by retrievers that were not trained on these mentions
MEAN, CROSSED = "mean", "crossed"
JOINTS = (JOINT, f"{JOINT}-{MEAN}", f"{JOINT}-{MEAN}-{CROSSED}")
SCORERS = (*(score for score in SCORES if score != NCE), JOINT)
JOINT_CONFIG, JOINT_RATE = Path("configs/ranker.cfg"), 1e-4
AT_ONCE = 64  # mentions whose pairs are scored at once
CLAIMS = {
    " ".join(claim): Claim(*claim)
    for claim in (
        (JOINT, "≫", "som"),
        ("som", "≈", "genpoly-16"),
        ("som", ">", "multi-8"),
        ("genpoly-16", ">", "multi-8"),
        ("multi-8", "≥", "poly-16"),
        ("poly-16", "≈", "dual"),
    )
}
PUBLISHED = {  # appendix B, normalised accuracy of ZESHEL's validation and test worlds, 64 candidates
    "dual": (60.43, 62.49),
    "multi-8": (61.56, 62.65),
    "multi-64": (61.94, 62.94),
    "multi-128": (61.67, 62.95),
    "som": (65.38, 65.24),
    "poly-16": (60.37, 60.98),
    "poly-64": (60.80, 61.88),
    "poly-128": (60.60, 62.72),
    "genpoly-128": (65.89, 64.98),
    JOINT: (76.17, 74.90),
}

app = typer.Typer(help=__doc__)
Candidates = dict[str, list[str]]  # their ids, best first, by `mention_key`


@app.command()
def data(
    retriever: Annotated[Path, typer.Argument(help="A linker that `scores.py run --keep` left")],
    top_n: Annotated[int, typer.Option(help="Candidates of a mention")] = 16,
    name: Data = "scores",
) -> None:
    """Write the candidates of all mentions to corpus/NAME_candidates_train.jsonl and …_dev.jsonl, and what the
    retriever has right to metrics/NAME/rerank/retriever-CANDIDATES.json."""
    nlp = spacy.load(retriever)
    linker: Any = nlp.get_pipe("pel_linker")
    for split in ("train", "dev"):
        mentions = gold_of(read_docs(corpus_of(name, split), nlp.vocab), linker.kb)
        found = find_mentions(lambda spans: linker.find(spans, top_n), mentions, desc=split, progress=True)
        lines = [
            {"mention": mention_key(one.span), "text": one.span.text, "ids": own.ids, "scores": own.scores.tolist()}
            for one, own in zip(mentions, (one.found for one in found), strict=True)
        ]
        write_lines(candidates_of(name, split), map(srsly.json_dumps, lines))
    srsly.write_json(retriever_of(name), stamp(retriever))
    kb = KnowledgeBase(kb_of(name))
    own = {"scorer": "retriever", "entities": len(kb), "data": digest_of(kb, name)}
    own |= {"candidates": digest_of_files([candidates_of(name, split) for split in ("train", "dev")]), "top_n": top_n}
    write_metrics(name, run_file(own), measures(mentions, [line["ids"] for line in lines]) | own)


@app.command()
def crossed(
    retriever: Annotated[Path, typer.Argument(help="As for `data`")],
    steps: Annotated[int, typer.Option(help="Optimiser steps of the retriever; half of them for each half")] = 94,
    rate: Rate = 0.0,
    seed: Seed = 0,
    name: Data = "scores",
    gpu_id: GPU = -1,
) -> None:
    """Train two more retrievers, each on every second document of the training corpus, and let each find the candidates
    in the documents of the other: corpus/NAME_crossed.jsonl."""
    docs = list(read_docs(corpus_of(name, "train"), spacy.blank("en").vocab))
    halves = [corpus_of(name, f"half_{i}") for i in (0, 1)]
    crossed_of(name).unlink(missing_ok=True)
    config = joint_config({"scorer": JOINTS[-1], "seed": seed, "steps": 1, "rate": JOINT_RATE}, retriever, name)
    joint = Path("training") / name / "crossed.cfg"
    joint.parent.mkdir(parents=True, exist_ok=True)
    config.to_disk(joint)
    for i, half in enumerate(halves):
        write_docs(half, docs[i::2])
    for i, (own, other) in enumerate(zip(halves, reversed(halves), strict=True)):
        half_config = config_of(settings_of("dual", 50, "sample", steps // 2, rate, seed, name), name)
        half_config["paths"]["train"] = str(own)
        folder = Path("training") / name / f"half-{i}"
        train(folder, half_config, gpu_id)
        command("pel", "index", folder / "model-last", kb_of(name), folder / "linker", "--gpu-id", gpu_id)
        command("pel", "candidates", joint, folder / "linker", "--gpu-id", gpu_id, "--paths.train", other)
        clear(folder, ("linker",))


@app.command()
def run(
    scorer: Annotated[str, typer.Argument(help=f"dual, multi-M, som, poly-M, genpoly-M, {', '.join(JOINTS)}")],
    retriever: Annotated[Path, typer.Argument(help="As for `data`")],
    steps: Annotated[int, typer.Option(help="Optimiser steps of 32 mentions; four times as many of 8 for joint")] = 94,
    rate: Rate = 0.0,
    seed: Seed = 0,
    name: Data = "scores",
    gpu_id: GPU = -1,
) -> None:
    """Train a reranker among the candidates, the right entity forced into them, and measure it on those of the
    development mentions as they are: metrics/NAME/rerank/SCORER-CANDIDATES-STEPS-RATE-SEED.json. What is there, with
    these settings and of this data, is not run again."""
    check_candidates(name, retriever)
    if CROSSED in scorer and not crossed_of(name).is_file():
        raise typer.BadParameter(f"{crossed_of(name)} is not there: run rerank-crossed first")
    settings = own_settings(scorer, steps, rate, seed, name)
    run_name = run_file(settings)
    if is_there(metrics_of(name, run_name), settings):
        typer.echo(f"{run_name}: is there")
        return
    folder = Path("training") / name / "rerank" / run_name
    config = joint_config(settings, retriever, name) if scorer in JOINTS else scorer_config(settings, name)
    seconds = train(folder, config, gpu_id)
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    nlp = spacy.load(folder / "model-last")
    kept = kept_candidates(name, "dev")
    kb = nlp.get_pipe("pel_linker").kb  # type: ignore[attr-defined]
    mentions = gold_of(read_docs(corpus_of(name, "dev"), nlp.vocab), kb)
    ranked = reranked(nlp, mentions, [kept[mention_key(one.span)] for one in mentions])
    more = {"top_n": max(map(len, ranked)), "training_seconds": seconds}
    write_metrics(name, run_name, measures(mentions, ranked) | settings | more)
    clear(folder)


@app.command("run-all")
def run_all(
    retriever: Annotated[Path, typer.Argument(help="As for `data`")],
    steps: Steps = 94,
    seed: Seed = 0,
    name: Data = "scores",
    gpu_id: GPU = -1,
) -> None:
    """All score functions, and the joint encoder."""
    for scorer in SCORERS:
        run(scorer, retriever, steps, 0.0, seed, name, gpu_id)


@app.command()
def table(name: Data = "scores") -> None:
    """Write and print metrics/NAME/rerank/table.md: for each set of candidates a table with a row for each reranker:
    recall@1 among all mentions, and among those whose entity is a candidate ("normalised"); and whether what the paper
    found held, each at its best steps and rate."""
    found: list[Any] = [srsly.read_json(path) for path in metrics_of(name, "x").parent.glob("*.json")]
    if not found:
        raise typer.BadParameter(f"{metrics_of(name, 'x').parent} has no run: run rerank-data and rerank first")
    parts = [part(list(group)) for _, group in groupby(sorted(found, key=retrieved), key=retrieved)]
    write(metrics_of(name, "x").with_name("table.md"), "\n".join(parts))


def part(found: list[Any]) -> str:
    """The tables of those rerankers that had the same candidates."""
    order = ["retriever", *map(kind_of, SCORES), JOINT]
    found.sort(key=lambda one: (order.index(one["scorer"].partition("-")[0]), *cell_of(one)))
    rows = [["", "steps", "rate", "seeds", "recall_at_1", "normalised", "training_seconds", "ZESHEL"]]
    right: dict[Hashable, list[float]] = {}
    for (scorer, *_), group in groupby(found, key=cell_of):
        runs = list(group)
        cells = [str(runs[0].get("steps", "–")), f"{runs[0]['rate']:g}" if "rate" in runs[0] else "–", str(len(runs))]
        for key in ("recall_at_1", "normalised", "training_seconds"):
            cells.append(over_seeds(key, [one.get(key) for one in runs]))
        cells.append(" / ".join(f"{percent:.1f}" for percent in PUBLISHED.get(scorer, ())) or "–")
        rows.append([scorer, *cells])
        normalised = [one["normalised"] for one in runs]
        right[scorer] = max(right.get(scorer, normalised), normalised, key=np.mean)
    claims = table_of_claims("normalised, Zhang & Stratos 2021, appendix B", CLAIMS, right)
    ceiling = f"{found[0]['n_mentions']:,} mentions; of {found[0]['ceiling']:.3f} the entity is a candidate."
    return f"{heading(found[0])}\n\n{markdown(rows)}\n{ceiling}\n\n{claims}"


def heading(one: dict[str, Any]) -> str:
    """What tells the candidates of a reranker from others."""
    entities, data, *files = retrieved(one)
    shown = f"data {data[:DIGEST]}, candidates {' '.join(file[:DIGEST] for file in files)}"
    return f"## {one.get('top_n', '?')} candidates of {one['n_mentions']:,} mentions, {entities:,} entities ({shown})"


def cell_of(one: dict[str, Any]) -> tuple:
    """What runs of several seeds have in common."""
    return one["scorer"], *(one.get(key) for key in ("steps", "rate", "entities", "data", "candidates"))


def retrieved(one: dict[str, Any]) -> tuple:
    """What rerankers of one table have in common: the KB, the corpora, and the candidates, of which those of a joint
    encoder have further files. An earlier version did not say those of the retriever."""
    return one.get("entities", 0), one.get("data", "?"), *one.get("candidates", "?").split()[:2]


def own_settings(scorer: str, steps: int, rate: float, seed: int, name: str) -> dict[str, Any]:
    """What decides what a run finds."""
    joint = scorer in JOINTS
    shared = settings_of("dual" if joint else scorer, 0, "top", steps, rate, seed, name)
    files = [candidates_of(name, split) for split in ("train", "dev")]
    if joint:
        batch = Config().from_disk(JOINT_CONFIG, interpolate=False)["training"]["batcher"]["size"]
        shared |= {"rate": rate or JOINT_RATE, "steps": 32 // batch * steps}
        files += [JOINT_CONFIG, *([crossed_of(name)] if CROSSED in scorer else [])]
    kept = {key: shared[key] for key in ("steps", "rate", "seed", "entities", "data")}
    return {"scorer": scorer, **kept, "candidates": digest_of_files(files)}


def digest_of_files(files: Iterable[Path]) -> str:
    return " ".join(sha256(path)[:16] for path in files)


def check_candidates(name: str, retriever: Path) -> None:
    """Check that what `data` wrote is of this retriever, and of the mentions and the KB that are there now.

    Raises:
        BadParameter: It is of others, or not there.
    """
    kb, vocab = KnowledgeBase(kb_of(name)), spacy.blank("en").vocab
    for split in ("train", "dev"):
        if not candidates_of(name, split).is_file():
            raise typer.BadParameter(f"{candidates_of(name, split)} is not there: run rerank-data first")
        corpus, kept = corpus_of(name, split), kept_candidates(name, split)
        mentions = {mention_key(one.span) for one in gold_of(read_docs(corpus, vocab), kb)}
        ids = {id_ for own in kept.values() for id_ in own}
        where = f"the candidates of {candidates_of(name, split)}"
        if kept.keys() != mentions:
            raise typer.BadParameter(f"{where} are of other mentions than {corpus}: run rerank-data again")
        if missing := sorted(ids - kb.rows(ids).keys()):
            raise typer.BadParameter(
                f"{where} are not all in {kb_of(name)} ({missing[0]}): run retriever, then rerank-data"
            )
    if retriever_of(name).is_file() and srsly.read_json(retriever_of(name)) != stamp(retriever):
        raise typer.BadParameter(f"the candidates of {name} are of another retriever than {retriever}: run rerank-data")


def scorer_config(settings: dict[str, Any], name: str) -> Config:
    """The config of a score function whose negatives are the other candidates of each mention, and no more."""
    config = config_of({"score": settings["scorer"], "p": 0, "draw": "top", **settings}, name)
    linker = config["components"]["pel_linker"]
    linker["negatives"] = {"@misc": "spacy_pel.RandomNegatives.v1", "n": 0}
    path = candidates_of(name, "train")
    n = max(len(ids) for ids in kept_candidates(name, "train").values()) - 1
    linker["distillation"] = {"@misc": "spacy_pel.Distillation.v1", "path": str(path), "n": n, "weight": 0.0}
    config["training"]["before_update"] = None
    return config


def joint_config(settings: dict[str, Any], retriever: Path, name: str) -> Config:
    """The config of the joint encoder, which lets the retriever find the same candidates, or has those of `crossed`."""
    config = Config().from_disk(JOINT_CONFIG, interpolate=False)
    config["paths"] |= {split: str(corpus_of(name, split)) for split in ("train", "dev")} | {"linker": str(retriever)}
    config["components"]["pel_ranker"]["top_n"] = max(map(len, kept_candidates(name, "train").values()))
    if MEAN in settings["scorer"]:
        config["components"]["pel_ranker"]["model"]["pooling"] = MEAN
    if CROSSED in settings["scorer"]:
        config["initialize"]["components"]["pel_ranker"]["candidates"] = str(crossed_of(name))
    config["training"] |= {"seed": settings["seed"], "max_steps": settings["steps"]}
    config["training"]["optimizer"]["learn_rate"]["initial_rate"] = settings["rate"]
    return config


def reranked(nlp: Any, mentions: Sequence[GoldMention], candidates: Sequence[list[str]]) -> list[list[str]]:
    """The candidates of each mention in the order of their new scores."""
    entities: dict[str, Entity] = nlp.get_pipe("pel_linker").kb.get_many({id_ for own in candidates for id_ in own})
    ranked: list[list[str]] = []
    for batch in minibatch(zip(mentions, candidates, strict=True), AT_ONCE):
        spans, ids = [mention.span for mention, _ in batch], [own for _, own in batch]
        pairs = [[entities[id_] for id_ in own] for own in ids]
        if "pel_ranker" in nlp.pipe_names:
            scores = score_pairs(nlp.get_pipe("pel_ranker").model, spans, pairs)
        else:
            scores = scores_of_pairs(nlp.get_pipe("pel_linker").model, spans, pairs)
        starts = np.cumsum([len(own) for own in ids])[:-1]
        for own, new in zip(ids, np.split(scores, starts), strict=True):
            ranked.append([own[place] for place in np.argsort(-new, kind="stable")])
    return ranked


def scores_of_pairs(model: Any, spans: Sequence[Any], candidates: Sequence[Sequence[Entity]]) -> np.ndarray:
    """What a bi-encoder scores each of m mentions with each of its candidates, mention by mention (pairs,)."""
    flat = [one for own in candidates for one in own]
    distinct = {one.id: one for one in flat}
    number = {id_: i for i, id_ in enumerate(distinct)}
    entities = encode_entities(model, distinct.values())[np.array([number[one.id] for one in flat])]
    queries, places = encode_spans(model, spans)
    places = np.repeat(places, [len(own) for own in candidates])
    return np.where(places == UNREADABLE, 0, similarities(model, queries[places], entities))


def measures(mentions: Sequence[GoldMention], ranked: Sequence[Sequence[str]]) -> dict[str, float]:
    """recall@1 over all mentions, over those whose entity is a candidate, and how many these are."""
    right = np.array([bool(ids) and ids[0] in one.ids for one, ids in zip(mentions, ranked, strict=True)])
    there = np.array([not set(one.ids).isdisjoint(ids) for one, ids in zip(mentions, ranked, strict=True)])
    found = {"recall_at_1": right.mean(), "normalised": right.sum() / max(there.sum(), 1), "ceiling": there.mean()}
    return {"n_mentions": len(right), **{key: float(value) for key, value in found.items()}}


def candidates_of(name: str, split: str) -> Path:
    return Path("corpus") / f"{name}_candidates_{split}.jsonl"


def retriever_of(name: str) -> Path:
    """What `data` wrote of the retriever that found the candidates."""
    return Path("corpus") / f"{name}_retriever.json"


def stamp(retriever: Path) -> str:
    """What tells a retriever from others: the digest of the file that has the hashes of its weights."""
    return digest_of_files([retriever / "pel_linker" / "cfg"])


def crossed_of(name: str) -> Path:
    return Path("corpus") / f"{name}_crossed.jsonl"


def kept_candidates(name: str, split: str) -> Candidates:
    """What `data` wrote."""
    lines: Any = srsly.read_jsonl(candidates_of(name, split))
    return {line["mention"]: line["ids"] for line in lines}


def run_file(settings: dict[str, Any]) -> str:
    """SCORER-CANDIDATES-STEPS-RATE-SEED: what was measured behind another retriever, or with other settings, stays
    beside it."""
    candidates = (file[:DIGEST] for file in settings["candidates"].split())
    parts = (f"{settings[key]:g}" for key in ("steps", "rate", "seed") if key in settings)
    return "-".join((settings["scorer"], *candidates, *parts))


def metrics_of(name: str, run_name: str) -> Path:
    return Path("metrics") / name / "rerank" / f"{run_name}.json"


def write_metrics(name: str, run_name: str, values: dict[str, Any]) -> None:
    path = metrics_of(name, run_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(path, values)
    typer.echo(f"{path}: recall@1 {values['recall_at_1']:.4f}, normalised {values['normalised']:.4f}")


if __name__ == "__main__":
    app()
