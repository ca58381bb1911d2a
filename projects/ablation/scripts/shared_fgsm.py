"""How far FGSM in the layout "shared", one step for a row that many mentions share, is from a step for every pair."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import torch
import typer
from spacy.util import minibatch
from tqdm import tqdm
from wasabi import msg

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.bi_encoder import row_builder, score_of
from spacy_pel.models.encoder import token_batches, tower_module
from spacy_pel.models.encoding import encode_mention_rows
from spacy_pel.pipeline.kb_of_pipeline import kb_ignored
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.layouts import shared
from spacy_pel.training.negatives import MixedNegatives
from spacy_pel.training.objective import loss_and_gradients
from spacy_pel.training.session import TrainingSession


def main(
    pipeline: Annotated[str, typer.Argument(help="A trained pipeline")],
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="Its KB; it is encoded again")],
    corpus: Annotated[Path, typer.Argument(help="Its training corpus")],
    output: Annotated[Path, typer.Argument(help="JSON file for the figures")],
    epsilon: Annotated[float, typer.Option(help="FGSM's step")] = 0.002,
    n: Annotated[int, typer.Option(help="Negatives a mention, half of them hard")] = 8,
    batches: Annotated[int, typer.Option(help="Batches of 32 mentions")] = 4,
) -> None:
    """The rise of the loss by either, on the same mentions and candidates, and how often the steps agree."""
    with kb_ignored():
        nlp = spacy.load(pipeline)
    linker, kb = nlp.get_pipe("pel_linker"), KnowledgeBase(kb_path)
    session = TrainingSession(linker.model, kb, linker.objective, seed=0)
    index, rng = session.live.refresh(), np.random.default_rng(0)
    mentions = [m for doc in read_docs(corpus, nlp.vocab) for m in gold_mentions(doc) if set(m.ids) & kb.keys()]
    rng.shuffle(mentions)
    fgsm, loss, found = FGSM(epsilon, 1.0), linker.objective.loss, []
    sampler = MixedNegatives(n)
    for batch in tqdm(list(islice(minibatch(mentions, 32), batches)), desc="Batches"):
        vectors = encode_mention_rows(linker.model, row_builder(linker.model).mentions([m.span for m in batch]))
        correct = [list(kb.rows(m.ids).values()) for m in batch]
        negatives = sampler.sample(rng, correct, len(kb), vectors, index, loss.logit_scale)
        candidates = shared(np.array([own[0] for own in correct]), correct, negatives)
        found.append(
            compare(
                linker.model, vectors, candidates, session.live.token_rows.take(candidates.entity_places), loss, fgsm
            )
        )
    figures = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    figures["rise by the shared step / by exact steps"] = figures["rise, shared step"] / figures["rise, exact steps"]
    srsly.write_json(output, figures)
    msg.table([(key, f"{value:,.4g}") for key, value in figures.items()], aligns=("l", "r"), divider=True)


def compare(model: Any, vectors: np.ndarray, candidates: Any, rows: Any, loss: Any, fgsm: FGSM) -> dict[str, float]:
    tower, score = model.get_ref("entity_tower"), score_of(model)
    entities, backprop = tower.begin_update(rows)
    clean, _, d_entities = loss_and_gradients(vectors, entities, candidates, score, loss)
    together = steps(tower, rows, fgsm, backprop(d_entities))
    shared_loss, _, _ = loss_and_gradients(vectors, tower.predict(rows.with_steps(together)), candidates, score, loss)
    positives, negatives = (torch.as_tensor(part) for part in (candidates.positives, candidates.negatives))
    exact_loss, gold_agrees, hardest_agrees = 0.0, [], []
    for i, mention in enumerate(vectors):
        _, backprop = tower.begin_update(rows)
        away = np.where(candidates.positives[i], -1.0, 1.0).astype("float32")
        own = steps(tower, rows, fgsm, backprop(away[:, None] * mention))
        scores = torch.as_tensor(tower.predict(rows.with_steps(own)) @ mention)[None]
        exact_loss += loss(scores, positives[i : i + 1], negatives[i : i + 1]).item()
        hardest = int(np.argmax(np.where(candidates.negatives[i], entities @ mention, -np.inf)))
        gold_agrees.append(agreement(tower, rows, together, own, int(candidates.positives[i].argmax())))
        hardest_agrees.append(agreement(tower, rows, together, own, hardest))
        tower_module(tower).zero_grad()
    count = len(vectors)
    return {
        "loss of a mention": clean / count,
        "rise, shared step": (shared_loss - clean) / count,
        "rise, exact steps": (exact_loss - clean) / count,
        "same sign in the gold entity's row": float(np.mean(gold_agrees)),
        "same sign in the row of the hardest negative": float(np.mean(hardest_agrees)),
    }


def steps(tower: Any, rows: Any, fgsm: FGSM, gradients: list) -> list[np.ndarray]:
    return [fgsm.step(g, batch.mask) for g, (_, batch) in zip(gradients, token_batches(tower, rows), strict=True)]


def agreement(tower: Any, rows: Any, one: list, other: list, row: int) -> float:
    """The share of the step's components in which two steps for `row` agree."""
    for a, b, (numbers, batch) in zip(one, other, token_batches(tower, rows), strict=True):
        if row in numbers:
            place = int(np.flatnonzero(numbers == row)[0])
            return float(np.mean((a[place] == b[place])[batch.mask[place]]))
    raise ValueError(row)


if __name__ == "__main__":
    typer.run(main)
