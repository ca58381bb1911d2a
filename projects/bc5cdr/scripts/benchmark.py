"""Time what costs time: a training step in both layouts with and without FGSM, encoding the KB, and linking.

Every figure of a ratio is measured in this one run, the two sides in turn. Steps are those of the config, on real
mentions; the per_mention layout takes the paper's 32 negatives. Prints a table and writes it as JSON.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import spacy
import typer
from spacy.util import load_config, load_model_from_config, minibatch
from tqdm import tqdm
from wasabi import msg

from spacy_pel.corpora.gold import gold_mentions
from spacy_pel.models.bi_encoder import encode_entities, row_builder
from spacy_pel.training.adversarial import make_fgsm
from spacy_pel.training.negatives import make_mixed_negatives
from spacy_pel.training.trainer import Objective, Trainer

BATCH = 32
WARM_UP = 2


def main(config: Path, pipeline: Path, output: Path, steps: int = 8, docs: int = 60) -> None:
    """config: a training config whose corpora are there. pipeline: an indexed pipeline."""
    figures = {**time_steps(config, steps), **time_encoding(pipeline), **time_linking(pipeline, config, docs)}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(figures, indent=2))
    msg.table([(key, f"{value:,.3f}") for key, value in figures.items()], aligns=("l", "r"), divider=True)


def time_steps(config: Path, steps: int) -> dict[str, float]:
    """Median seconds of a training step (gradients and weight update) of 32 mentions."""
    nlp = load_model_from_config(load_config(config), auto_fill=True)
    settings = nlp.config.interpolate()
    registry = spacy.registry.resolve({"corpora": settings["corpora"], "optimizer": settings["training"]["optimizer"]})
    corpus, optimizer = registry["corpora"]["train"], registry["optimizer"]
    with nlp.select_pipes(enable=nlp.pipe_names):
        nlp.initialize(lambda: islice(corpus(nlp), 100))
    linker = nlp.get_pipe("pel_linker")
    examples = list(islice(corpus(nlp), BATCH * (steps + WARM_UP)))
    batches = [
        [mention for example in batch for mention in gold_mentions(example.reference)]
        for batch in minibatch(examples, BATCH)
    ]
    shared = None
    figures: dict[str, float] = {}
    for layout, negatives in (("shared", linker.objective.negatives), ("per_mention", make_mixed_negatives(n=32))):
        trainers = {}
        for key, adversarial in (("", None), ("_fgsm", make_fgsm())):
            objective = Objective(linker.objective.loss, adversarial, negatives, layout)
            trainers[key] = Trainer(linker.model, linker.kb, objective, seed=0)
            if shared is None:
                shared = trainers[key]
                shared.refresh()
            trainers[key].adopt(shared)
        times: dict[str, list[float]] = {key: [] for key in trainers}
        for batch in tqdm(batches, desc=f"Steps, {layout}"):
            for key, trainer in trainers.items():
                start = perf_counter()
                trainer.accumulate(batch)
                linker.finish_update(optimizer)
                times[key].append(perf_counter() - start)
        plain, fgsm = (median(times[key][WARM_UP:]) for key in ("", "_fgsm"))
        figures |= {
            f"{layout}_step_seconds": plain,
            f"{layout}_fgsm_step_seconds": fgsm,
            f"{layout}_fgsm_ratio": fgsm / plain,
        }
    return figures


def time_encoding(pipeline: Path, n: int = 8192) -> dict[str, float]:
    """Entities a second, from their records to their vectors."""
    linker = spacy.load(pipeline).get_pipe("pel_linker")
    entities = list(linker.kb.entities())
    entities = [entities[i] for i in np.random.default_rng(0).permutation(len(entities))[:n]]
    start = perf_counter()
    encode_entities(linker.model, row_builder(linker.model).entities(entities))
    return {"entities_per_second": len(entities) / (perf_counter() - start)}


def time_linking(pipeline: Path, config: Path, docs: int, rounds: int = 3) -> dict[str, float]:
    """Mentions a second through `nlp.pipe` (tokenised rows, encoder, search, annotation) and through the bare encoder
    over the very same padded rows."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    corpus = spacy.registry.resolve({"corpora": load_config(config).interpolate()["corpora"]})["corpora"]["dev"]
    gold = [example.reference for example in islice(corpus(nlp), docs)]
    rows, _ = row_builder(linker.model).mentions([ent for doc in gold for ent in doc.ents]).unique()
    tower = linker.model.get_ref("mention_tower")
    n = sum(len(doc.ents) for doc in gold)
    piped, bare = [], []
    for _ in tqdm(range(rounds + 1), desc="Linking"):
        start = perf_counter()
        for _ in nlp.pipe([doc.copy() for doc in gold]):
            pass
        piped.append(perf_counter() - start)
        start = perf_counter()
        tower.predict(rows)
        bare.append(perf_counter() - start)
    pipe_rate, bare_rate = n / median(piped[1:]), n / median(bare[1:])
    return {
        "mentions_per_second_pipe": pipe_rate,
        "mentions_per_second_bare_encoder": bare_rate,
        "pipe_to_bare_ratio": pipe_rate / bare_rate,
    }


if __name__ == "__main__":
    typer.run(main)
