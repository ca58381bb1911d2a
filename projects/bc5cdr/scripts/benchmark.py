"""Time what costs time (a training step in both layouts with and without FGSM, encoding the KB, linking) and compare
bfloat16 and int8 with float32.

The two sides of every ratio are measured in turn, in one run. Prints a table and writes it as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from spacy.util import load_config, load_model_from_config, minibatch, resolve_dot_names
from tqdm import tqdm
from wasabi import msg

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_entity_rows, encode_mention_rows
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.negatives import MixedNegatives

BATCH = 32
WARM_UP = 2
NEGATIVES = {"shared": 8, "per_mention": 32}  # the defaults of the two layouts (DESIGN: 8; the paper: 32)


def main(
    config: Annotated[Path, typer.Argument(help="The training config; its corpora and KB must be there")],
    pipeline: Annotated[Path, typer.Argument(help="The indexed pipeline")],
    output: Annotated[Path, typer.Argument(help="JSON file for the figures")],
    steps: Annotated[int, typer.Option(help="Timed training steps of each kind")] = 8,
    docs: Annotated[int, typer.Option(help="Documents linked through nlp.pipe")] = 100,
    part: Annotated[list[str] | None, typer.Option(help="Only this: steps, linking or precision")] = None,
) -> None:
    """Measure and print, a part at a time; figures of parts that are not run again stay in the file."""
    parts: dict[str, Callable[[], dict[str, float]]] = {
        "steps": lambda: time_steps(config, steps),
        "linking": lambda: time_linking(pipeline, config, docs),
        "precision": lambda: compare_precision(pipeline, config),
    }
    figures: dict[str, Any] = dict(srsly.read_json(output)) if output.is_file() else {}
    for name in part or parts:
        measured = parts[name]()
        msg.table([(key, f"{value:,.4g}") for key, value in measured.items()], aligns=("l", "r"), divider=True)
        figures |= measured
        srsly.write_json(output, figures)


def time_steps(config: Path, steps: int) -> dict[str, float]:
    """Median seconds of a training step, gradients and weight update, of 32 mentions: layouts × FGSM."""
    nlp = load_model_from_config(load_config(config), auto_fill=True)
    nlp.initialize()
    linker, optimizer = nlp.get_pipe("pel_linker"), nlp.create_optimizer()
    (corpus,) = resolve_dot_names(nlp.config.interpolate(), ["corpora.train"])
    examples = list(islice(corpus(nlp), BATCH * (steps + WARM_UP)))
    batches = list(minibatch((m for example in examples for m in gold_mentions(example.reference)), BATCH))
    session = linker.begin_training()
    session.live.refresh()
    figures: dict[str, float] = {}
    for layout, n in NEGATIVES.items():
        objective = replace(linker.objective, layout=layout, negatives=MixedNegatives(n))
        times: dict[Any, list[float]] = {None: [], FGSM(): []}
        for batch in tqdm(batches, desc=f"Training steps, {layout}"):
            for adversarial, seconds in times.items():
                session.objective = replace(objective, adversarial=adversarial)
                start = perf_counter()
                session.accumulate(batch)
                linker.finish_update(optimizer)
                seconds.append(perf_counter() - start)
        plain, fgsm = (median(seconds[WARM_UP:]) for seconds in times.values())
        figures |= {f"{layout}: seconds a step": plain, f"{layout}: with FGSM": fgsm, f"{layout}: ratio": fgsm / plain}
    return figures


def time_linking(pipeline: Path, config: Path, n_docs: int, rounds: int = 5) -> dict[str, float]:
    """Mentions a second through `nlp.pipe` and through the bare encoder over the same padded rows."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    gold = list(islice(read_docs(dev_path(config), nlp.vocab), n_docs))
    ents = [ent for doc in gold for ent in doc.ents]
    rows, _ = row_builder(linker.model).mentions(ents).unique()
    piped, bare = [], []
    for _ in tqdm(range(rounds + 1), desc="Linking"):
        docs = [doc.copy() for doc in gold]
        start = perf_counter()
        for _ in nlp.pipe(docs):
            pass
        piped.append(perf_counter() - start)
        start = perf_counter()
        encode_mention_rows(linker.model, rows)
        bare.append(perf_counter() - start)
    pipe_rate, bare_rate = (len(ents) / median(seconds[1:]) for seconds in (piped, bare))
    return {
        "nlp.pipe: mentions a second": pipe_rate,
        "bare encoder: mentions a second": bare_rate,
        "nlp.pipe / bare encoder": pipe_rate / bare_rate,
    }


def compare_precision(pipeline: Path, config: Path) -> dict[str, float]:
    """Dev mentions against the whole KB, everything encoded in float32, and again in bfloat16 and in int8."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    gold = [m for doc in read_docs(dev_path(config), nlp.vocab) for m in gold_mentions(doc)]
    builder = row_builder(linker.model)
    mention_rows, entity_rows = builder.mentions([m.span for m in gold]), builder.entities(linker.kb.entities())
    ids = [entity.id for entity in linker.kb.entities()]
    known = set(ids)
    in_kb = [i for i, m in enumerate(gold) if known & set(m.ids)]
    encoded, figures = {}, {}
    for precision in ("fp32", "bf16", "int8"):
        for tower in linker.model.layers:
            tower_module(tower).precision = precision
        start = perf_counter()
        entities = encode_entity_rows(linker.model, entity_rows)
        figures[f"{precision}: entities encoded a second"] = len(entities) / (perf_counter() - start)
        start = perf_counter()
        mentions = encode_mention_rows(linker.model, mention_rows)
        figures[f"{precision}: mentions encoded a second"] = len(mentions) / (perf_counter() - start)
        encoded[precision] = mentions, entities

    def best(mentions: np.ndarray, entities: np.ndarray) -> np.ndarray:
        return VectorIndex.build(entities).search(mentions, 1)[1][:, 0]

    def recall(top: np.ndarray) -> float:
        return float(np.mean([ids[top[i]] in gold[i].ids for i in in_kb]))

    exact = best(*encoded["fp32"])
    figures["fp32: recall@1"] = recall(exact)
    for precision in ("bf16", "int8"):
        both, kb_in_float = best(*encoded[precision]), best(encoded[precision][0], encoded["fp32"][1])
        cosines = [(a * b).sum(axis=1) for a, b in zip(encoded[precision], encoded["fp32"], strict=True)]
        figures |= {
            f"{precision}: recall@1": recall(both),
            f"{precision} mentions, fp32 KB: recall@1": recall(kb_in_float),
            f"{precision} and fp32: smallest cosine of a mention's vectors": float(cosines[0].min()),
            f"{precision} and fp32: smallest cosine of an entity's vectors": float(cosines[1].min()),
            f"{precision} and fp32: equal top-1 over dev mentions": float(np.mean(both == exact)),
        }
    return figures


def dev_path(config: Path) -> Path:
    return Path(load_config(config).interpolate()["paths"]["dev"])


if __name__ == "__main__":
    typer.run(main)
