"""How far the loss and the gradient over a few negatives are from those over all labels, on made-up labels (Zhang &
Stratos 2021, section 3 and 6.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import srsly
import torch
import typer
from torch import nn
from tqdm import trange

from spacy_pel.training.losses import CrossEntropyLoss

LABELS, WIDTH, SHARPNESS = 1000, 300, 0.001
UPDATES, SAMPLES, RATE = 30, 128, 1e-3
NEGATIVES, SIMULATIONS = 4, 10
KINDS = ("random", "hard")

app = typer.Typer(help=__doc__)


@app.command()
def run(
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    seed: Annotated[int, typer.Option(help="Of labels, weights and draws")] = 42,
) -> None:
    """Train on samples of a distribution of labels by cross-entropy over all of them, and after every update compare:
    the exact loss, and those of 4 negatives drawn uniformly or by the model, without replacement; and the norm of the
    difference of their gradients."""
    torch.manual_seed(seed)
    log_pop = (torch.rand(LABELS) / SHARPNESS).log_softmax(0)
    model = nn.Sequential(nn.Embedding(1, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, LABELS))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    rows = []
    for update in trange(1, UPDATES + 1, desc="Updates"):
        scores = scores_of(model)
        sample = torch.multinomial(log_pop.exp(), SAMPLES, replacement=True)
        optimizer.zero_grad()
        (scores.logsumexp(0) - scores[sample]).mean().backward()
        optimizer.step()
        rows.append({"update": update} | compared(model, log_pop.exp()))
    entropy = -(log_pop.exp() * log_pop).sum().item()
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, {"seed": seed, "entropy": entropy, "rows": rows})
    typer.echo(f"{output}: entropy {entropy:.2f}")
    for row in rows[4::5]:
        typer.echo(" ".join(f"{key} {value:.2f}" for key, value in row.items()))


@app.command()
def figure(
    metrics: Annotated[Path, typer.Argument(help="What `run` wrote")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Draw the losses and the bias of the gradient over the updates."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    rows: Any = srsly.read_json(metrics)
    drawn = Figure(figsize=(10, 4), layout="constrained")
    losses, bias = drawn.subplots(1, 2)
    updates = [row["update"] for row in rows["rows"]]
    losses.plot(updates, [row["exact"] for row in rows["rows"]], "k-", label="all labels")
    for kind in KINDS:
        losses.plot(updates, [row[kind] for row in rows["rows"]], label=f"{kind} negatives")
        bias.plot(updates, [row[f"{kind}: bias"] for row in rows["rows"]], label=f"{kind} negatives")
    losses.axhline(rows["entropy"], color="k", linestyle=":", label="entropy of the labels")
    losses.set(xlabel="updates", ylabel="loss")
    bias.set(xlabel="updates", ylabel="norm of the bias of the gradient")
    for axes in (losses, bias):
        axes.grid(alpha=0.3)
        axes.legend()
    save_figure(drawn, output)


def scores_of(model: nn.Module) -> torch.Tensor:
    """The scores (labels,) of the one thing that is labelled."""
    return model(torch.zeros(1, dtype=torch.long))[0]


def compared(model: nn.Module, pop: torch.Tensor) -> dict[str, float]:
    """The exact loss, the expected one of each kind of negatives, and the norms of the differences of gradients."""
    scores = scores_of(model)
    exact = scores.logsumexp(0) - (pop * scores).sum()
    gradient = flat_gradient(exact, model)
    found = {"exact": exact.item()}
    for kind in KINDS:
        loss = expected_loss(scores_of(model), pop, hard=kind == "hard")
        found |= {kind: loss.item(), f"{kind}: bias": (gradient - flat_gradient(loss, model)).norm().item()}
    return found


def expected_loss(scores: torch.Tensor, pop: torch.Tensor, *, hard: bool) -> torch.Tensor:
    """The loss of every label (weighted by `pop`) against 4 others, drawn some times: uniformly, or in the proportions
    of the softmax of `scores`, by the largest of these with Gumbel noise."""
    gold = torch.arange(LABELS).repeat(SIMULATIONS)
    noise = -torch.empty(len(gold), LABELS).exponential_().log()
    noise += scores.detach() if hard else 0.0
    noise[torch.arange(len(gold)), gold] = -torch.inf
    candidates = torch.column_stack([gold, noise.topk(NEGATIVES).indices])
    right = torch.arange(1 + NEGATIVES).expand_as(candidates) == 0
    return (pop[gold] * CrossEntropyLoss()(scores[candidates], right, ~right)).sum() / SIMULATIONS


def flat_gradient(loss: torch.Tensor, model: nn.Module) -> torch.Tensor:
    """The gradient of `loss` by all weights, as one vector."""
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


if __name__ == "__main__":
    app()
