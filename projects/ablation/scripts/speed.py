"""A training step beside the plain way of doing it, on the same mentions and candidates, and where its time goes.

The plain way: float32, one list of N + 1 entities a mention, every row padded to the same length, and with FGSM three
passes (the gradients of the scores, the loss, the adversarial loss).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import spacy.training.initialize
import srsly
import torch
import typer
from spacy.util import load_config, minibatch, resolve_dot_names
from tqdm import tqdm
from wasabi import msg

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.precision import compute_dtype
from spacy_pel.models.token_rows import TokenRows
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.negatives import RandomNegatives
from spacy_pel.training.optimizer import AdamW


def main(
    output: Annotated[Path, typer.Argument(help="JSON file for the figures")],
    config: Annotated[Path, typer.Option(help="A training config")] = Path("configs/base.cfg"),
    n: Annotated[int, typer.Option(help="Random negatives a mention")] = 8,
    epsilon: Annotated[float, typer.Option(help="FGSM's step")] = 0.002,
    padded_to: Annotated[int, typer.Option(help="Tokens of every row in the plain way")] = 128,
    batch_size: Annotated[int, typer.Option(help="Mentions a step")] = 32,
    steps: Annotated[int, typer.Option(help="Timed steps of each kind, after one that does not count")] = 3,
) -> None:
    """Compare, in one run, in float32 and, where the processor has it, in bfloat16."""
    nlp = spacy.training.initialize.init_nlp(load_config(config), use_gpu=-1)
    linker = nlp.get_pipe("pel_linker")
    (corpus,) = resolve_dot_names(nlp.config.interpolate(), ["corpora.train"])
    batches = list(islice(minibatch(corpus(nlp), batch_size), steps + 1))
    session = linker.begin_training()
    fast = compute_dtype("auto", torch.device("cpu")) != torch.float32
    figures: dict[str, float] = {}
    for adversarial in (None, FGSM(epsilon, 1.0)):
        what = "FGSM" if adversarial else "without FGSM"
        session.objective = replace(
            linker.objective, layout="per_mention", negatives=RandomNegatives(n), adversarial=adversarial
        )
        plain, ours, losses, expected = [], [], [], []
        for batch in tqdm(batches, desc=f"Float32, {what}"):
            set_precision(linker, "fp32")
            start = perf_counter()
            losses.append(step(linker, batch))
            ours.append(perf_counter() - start)
            start = perf_counter()
            expected.append(plain_step(linker, batch, session.latest_batch, adversarial, padded_to))
            plain.append(perf_counter() - start)
        rate = figures[f"{what}: plain, mentions a second"] = batch_size / median(plain[1:])
        figures[f"{what}: greatest difference of the losses"] = max(map(lambda a, b: abs(a - b), losses, expected))
        for layout in ("per_mention", "shared"):
            for precision in ("fp32", "bf16") if fast else ("fp32",):
                session.objective = replace(session.objective, layout=layout)
                set_precision(linker, precision)
                seconds, shares = timed_steps(linker, batches)
                name = f"{what}: {layout}, {precision}"
                figures[f"{name}, mentions a second"] = batch_size / seconds
                figures[f"{name} / plain"] = batch_size / seconds / rate
                figures |= {f"{name}: share of {part}": share for part, share in shares.items()}
    srsly.write_json(output, figures)
    msg.table([(key, f"{value:,.4g}") for key, value in figures.items()], aligns=("l", "r"), divider=True)


def step(linker: Any, batch: list) -> float:
    """The gradients of a batch, without an update of the weights: the next way must find them as they were."""
    loss = linker.update(batch)[linker.name]
    for tower in linker.model.layers:
        tower_module(tower).zero_grad()
    return loss


def timed_steps(linker: Any, batches: list) -> tuple[float, dict[str, float]]:
    """Median seconds of a step with its update, and the shares of it that its parts take."""
    optimizer, seconds, encoders, updates = AdamW(1e-9), [], [], []
    for batch in batches:
        with timed_towers(linker.model) as spent:
            start = perf_counter()
            linker.update(batch)
            middle = perf_counter()
            linker.finish_update(optimizer)
            seconds.append(perf_counter() - start)
            updates.append(perf_counter() - middle)
            encoders.append(sum(spent))
    total = sum(seconds[1:])
    shares = {"the encoders": sum(encoders[1:]) / total, "the update of the weights": sum(updates[1:]) / total}
    return median(seconds[1:]), shares | {"all else": 1 - sum(shares.values())}


@contextmanager
def timed_towers(model: Any) -> Iterator[list[float]]:
    """Collects the seconds that the transformers take, forwards and backwards."""
    spent: list[float] = []
    shims = [tower.layers[0].shims[0] for tower in model.layers]

    def timed(function: Callable) -> Callable:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = perf_counter()
            result = function(*args, **kwargs)
            spent.append(perf_counter() - start)
            return (result[0], timed(result[1])) if isinstance(result, tuple) and callable(result[1]) else result

        return run

    for shim in shims:
        shim.begin_update = timed(type(shim).begin_update.__get__(shim))
    try:
        yield spent
    finally:
        for shim in shims:
            del shim.begin_update


def plain_step(linker: Any, batch: list, candidates: Any, adversarial: FGSM | None, width: int) -> float:
    """The mean loss of a batch, with its gradients."""
    mention_tower, entity_tower = (tower_module(tower) for tower in linker.model.layers)
    spans = [span for example in batch for span in example.reference.spans["gold_mentions"]]
    mentions = row_builder(linker.model).mentions(spans)
    entities = linker.session.live.token_rows.take(candidates.entity_places)
    if len(candidates.entity_places) % len(spans):
        raise PelError("some mentions of the corpus have no entity in the KB: run the command `data` again")
    loss, per_mention, total = linker.objective.loss, len(candidates.entity_places) // len(spans), 0.0
    for i in range(len(spans)):
        own = entities.take(np.arange(i * per_mention, (i + 1) * per_mention))
        ids, mask = padded(own, width, linker.model)
        masks = [torch.tensor(part[i : i + 1]) for part in (candidates.positives, candidates.negatives)]
        mention = mention_tower(*padded(mentions.take([i]), width, linker.model), None)
        z = torch.zeros(*ids.shape, entity_tower.transformer.config.hidden_size, requires_grad=True)
        value = loss(mention @ entity_tower(ids, mask, z).T, *masks).sum()
        if adversarial is not None:
            (towards,) = torch.autograd.grad((mention @ entity_tower(ids, mask, z).T).sum(), z)
            away = torch.where(masks[0].T[:, :, None], -1.0, 1.0)
            hurt = adversarial.epsilon * away * towards.sign() * mask[:, :, None]
            value = value + adversarial.weight * loss(mention @ entity_tower(ids, mask, hurt).T, *masks).sum()
        value.backward()
        total += value.item()
    for module in (mention_tower, entity_tower):
        torch.optim.AdamW(module.parameters(), lr=0.0, weight_decay=0.0).step()
        module.zero_grad()
    return total / len(spans)


def padded(rows: TokenRows, width: int, model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = np.full((len(rows), width), row_builder(model).pad), np.zeros((len(rows), width), dtype=bool)
    for i in range(len(rows)):
        ids[i, : len(rows[i])], mask[i, : len(rows[i])] = rows[i], True
    return torch.tensor(ids), torch.tensor(mask)


def set_precision(linker: Any, precision: str) -> None:
    for tower in linker.model.layers:
        tower_module(tower).precision = precision


if __name__ == "__main__":
    typer.run(main)
