"""The bias of the gradient of a bi-encoder (Zhang & Stratos 2021, appendix C), for cross-entropy and for Pb: 64
mentions among 128 entities, 7 negatives a mention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import srsly
import torch
import typer
from thinc.api import Model
from tqdm import tqdm, trange

from spacy_pel.cli.table import markdown
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.models.bi_encoder import make_bi_encoder, row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.pretrained import set_encoder
from spacy_pel.models.token_rows import TokenRows
from spacy_pel.training.losses import CrossEntropyLoss, Loss, ProxyLoss
from spacy_pel.training.negatives import MixedNegatives
from spacy_pel.training.optimizer import AdamW

MENTIONS, ENTITIES, NEGATIVES = 64, 128, 7
RATE = 1e-4
DRAWS = 500
LOSSES: dict[str, tuple[Loss, str, str]] = {  # with similarity and pooling, each as in its own paper
    "cross-entropy": (CrossEntropyLoss(), "dot", "cls"),
    "Pb": (ProxyLoss(origin=0.0), "cosine", "mean"),
}
KINDS = {"random": 0, "hard": NEGATIVES, "mixed": MixedNegatives(NEGATIVES).n_hard}  # how many are hard

app = typer.Typer(help=__doc__)


class Data(NamedTuple):
    """Mentions and entities as token rows; mention i means entity i."""

    mentions: TokenRows
    entities: TokenRows


@app.command()
def run(
    corpus: Annotated[Path, typer.Argument(help=".spacy with gold mentions")],
    kb: Annotated[Path, typer.Argument(help="A KB folder")],
    encoder: Annotated[Path, typer.Argument(help="A Hugging Face model")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    steps: Annotated[int, typer.Option(help="Of the training on all 128")] = 20,
    seed: Annotated[int, typer.Option(help="Of mentions, entities and draws")] = 0,
) -> None:
    """Train two bi-encoders for each loss, one on the loss over all entities and one on 7 random negatives, and at each
    compare the gradient of the loss over all with the mean one of 7 negatives: random ones, hard ones, drawn by the
    model, and 4 hard and 3 random ones."""
    rows = []
    for name, (loss, similarity, pooling) in LOSSES.items():
        for trained_on in ("all", "random"):
            torch.manual_seed(seed)
            rng = np.random.default_rng(seed)
            model = make_bi_encoder(40, 32, similarity, aliases="first", pooling=pooling)
            set_encoder(model, HFEncoder(str(encoder), dropout=0.0)())
            data = drawn_data(model, corpus, KnowledgeBase(kb), rng, seed)
            train(model, data, loss, steps, n_random=None if trained_on == "all" else NEGATIVES)
            set_precision(model, "fp32")
            scores = scores_of(model, data)
            exact = torch.as_tensor(gradient(loss, scores, everything(scores)))
            found: dict[str, Any] = {"loss": name, "trained on": trained_on, "recall_at_1": recall(scores)}
            for kind, n_hard in tqdm(KINDS.items(), desc=f"{name}, trained on {trained_on}"):
                found[kind] = norm(model, data, exact - mean_gradient(loss, scores, n_hard))
            rows.append(found | {"gradient": norm(model, data, exact)})
            typer.echo(rows[-1])
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, {"seed": seed, "steps": steps, "rows": rows})


@app.command()
def table(metrics: Annotated[Path, typer.Argument(help="What `run` wrote")]) -> None:
    """Write and print METRICS as Markdown: of each model the norms of the exact gradient and of the bias of each kind
    of negatives, and the bias as a share of that gradient."""
    found: Any = srsly.read_json(metrics)
    rows = [["loss", "trained on", "recall@1", "gradient over all", *(f"bias, {kind}" for kind in KINDS)]]
    for row in found["rows"]:
        biases = (f"{row[kind]:.3g} (× {row[kind] / row['gradient']:.3g})" for kind in KINDS)
        rows.append([row["loss"], row["trained on"], f"{row['recall_at_1']:.3f}", f"{row['gradient']:.3g}", *biases])
    text = markdown(rows)
    metrics.with_suffix(".md").write_text(text, encoding="utf-8")
    typer.echo(text)


def drawn_data(model: Model, corpus: Path, kb: KnowledgeBase, rng: np.random.Generator, seed: int) -> Data:
    """Mentions of different entities, these, and others of the KB."""
    chosen: dict[str, Any] = {}
    for example in MentionCorpus(corpus, window=40, seed=seed)(spacy.blank("en")):
        (span,) = example.reference.ents
        if span.kb_id_ in kb:
            chosen.setdefault(span.kb_id_, span)
        if len(chosen) == MENTIONS:
            break
    others = (id_ for id_ in rng.permutation(kb.ids(kb.live_rows)) if id_ not in chosen)
    ids = [*chosen, *(next(others) for _ in range(ENTITIES - MENTIONS))]
    builder = row_builder(model)
    return Data(builder.windows(list(chosen.values())), builder.entities(kb[id_] for id_ in ids))


def scores_of(model: Model, data: Data) -> torch.Tensor:
    """The scores (m, n) of all pairs."""
    mentions, entities = (
        model.get_ref(f"{side}_tower").predict(rows) for side, rows in zip(("mention", "entity"), data, strict=True)
    )
    return torch.as_tensor(mentions @ entities.T)


def everything(scores: torch.Tensor) -> torch.Tensor:
    """That all wrong entities are negatives (m, n)."""
    return ~torch.eye(*scores.shape, dtype=torch.bool)


def drawn(scores: torch.Tensor, n_hard: int) -> torch.Tensor:
    """Negatives (..., m, n) of mentions with scores (..., m, n): `n_hard` in the proportions of the softmax of the
    scores, the rest uniformly, all different."""
    right = torch.eye(*scores.shape[-2:], dtype=torch.bool)
    negatives = torch.zeros(scores.shape, dtype=torch.bool)
    for logits, n in ((scores, n_hard), (torch.zeros_like(scores), NEGATIVES - n_hard)):
        noisy = (logits - torch.empty_like(scores).exponential_().log()).masked_fill(right | negatives, -torch.inf)
        negatives.scatter_(-1, noisy.topk(n).indices, True)
    return negatives


def gradient(loss: Loss, scores: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """The gradient (m, n) of the mean loss by `scores` (m, n)."""
    fixed = scores.detach().double().requires_grad_()
    right = torch.eye(*scores.shape, dtype=torch.bool)
    (found,) = torch.autograd.grad(loss(fixed, right, negatives).mean(), fixed)  # type: ignore[call-arg]
    return found.float()


def mean_gradient(loss: Loss, scores: torch.Tensor, n_hard: int) -> torch.Tensor:
    """The mean of the gradients (m, n) over many draws of negatives."""
    total = torch.zeros_like(scores)
    for _ in range(DRAWS):
        total += gradient(loss, scores, drawn(loss.logit_scale * scores, n_hard))
    return total / DRAWS


def train(model: Model, data: Data, loss: Loss, steps: int, n_random: int | None) -> None:
    """Minimise the loss over all entities, or over `n_random` drawn anew in each step."""
    optimizer = AdamW(RATE)
    for _ in trange(steps, desc="Training"):
        backpropagate(
            model,
            data,
            lambda scores: gradient(loss, scores, everything(scores) if n_random is None else drawn(scores, 0)),
        )
        model.finish_update(optimizer)
        for tower in model.layers:
            tower_module(tower).weights_changed()


def backpropagate(model: Model, data: Data, gradient_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Set the gradients of all weights to those of Σ d · scores, d = `gradient_of` the scores (m, n)."""
    for tower in model.layers:
        tower_module(tower).zero_grad()
    mentions, to_mentions = model.get_ref("mention_tower").begin_update(data.mentions)
    entities, to_entities = model.get_ref("entity_tower").begin_update(data.entities)
    d_scores = gradient_of(torch.as_tensor(mentions @ entities.T)).numpy()
    to_mentions((d_scores @ entities).astype("float32"))
    to_entities((d_scores.T @ mentions).astype("float32"))


def norm(model: Model, data: Data, d_scores: torch.Tensor) -> float:
    """The norm of the gradient of both towers that this gradient by the scores makes."""
    backpropagate(model, data, lambda scores: d_scores)
    parts = [
        weight.grad.norm()
        for tower in model.layers
        for weight in tower_module(tower).parameters()
        if weight.grad is not None
    ]
    return float(torch.stack(parts).norm())


def set_precision(model: Model, precision: str) -> None:
    """Let both towers compute in this precision."""
    for tower in model.layers:
        tower_module(tower).precision = precision


def recall(scores: torch.Tensor) -> float:
    """The share of mentions whose own entity scores highest."""
    return float((scores.argmax(1) == torch.arange(len(scores))).float().mean())


if __name__ == "__main__":
    app()
