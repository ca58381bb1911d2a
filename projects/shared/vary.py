"""A training config with another loss, other negatives, with or without FGSM: the rows of the papers' tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from thinc.api import Config

SCORES = ("DualScore", "MultiVectorScore", "SumOfMax", "PolyEncoder", "GeneralPoly")
OF_COSINES, WITH_M = SCORES[:2], ("MultiVectorScore", "PolyEncoder", "GeneralPoly")
DUAL, FGSM, LAYERS = "DualScore", "spacy_pel.FGSM.v1", ("sum", "normalised")
AUTO, MINILM = "auto", "minilm"
CROSS_ENTROPY = "spacy_pel.CrossEntropyLoss.v1"
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {  # similarity, loss
    "pb": ("cosine", {"@misc": "spacy_pel.ProxyLoss.v1"}),
    "ce": ("dot", {"@misc": CROSS_ENTROPY, "scale": 1.0, "similarity": "dot"}),
    "ce-cosine": ("cosine", {"@misc": CROSS_ENTROPY, "scale": 32.0, "similarity": "cosine"}),
    "nce": ("dot", {"@misc": "spacy_pel.NCELoss.v1"}),
}
# The highest rate of each loss for MiniLM in a short training: what `rates` of the project ablation found for the first
# two; each of the others has the rate of that one whose scores are as large
RATES = {"pb": 2e-4, "ce": 1e-4, "ce-cosine": 2e-4, "nce": 1e-4}
MIXED = "spacy_pel.MixedNegatives.v1"
NEGATIVES: dict[str, dict[str, Any]] = {
    "random": {"@misc": "spacy_pel.RandomNegatives.v1"},
    "mixed": {"@misc": MIXED, "p": 50},
    "hard": {"@misc": "spacy_pel.HardNegatives.v1"},
    "sampled": {"@misc": "spacy_pel.HardNegatives.v1", "draw": "sample"},
}


def main(
    config: Annotated[Path, typer.Argument(help="The training config")],
    output: Annotated[Path, typer.Argument(help="The config to write")],
    loss: Annotated[str, typer.Option(help=" or ".join(LOSSES))] = "pb",
    margin: Annotated[float, typer.Option(help="Of the proxy-based loss")] = 0.0,
    negatives: Annotated[str, typer.Option(help=" or ".join(NEGATIVES))] = "mixed",
    n: Annotated[int, typer.Option(help="Negatives a mention")] = 32,
    p: Annotated[
        int, typer.Option(min=-1, max=100, help="Per cent that are hard, of mixed (50) or sampled (100); -1: these")
    ] = -1,
    epsilon: Annotated[float, typer.Option(help="FGSM's step; 0: no FGSM")] = 0.0,
    layer: Annotated[str, typer.Option(help=f"What FGSM steps on: {' or '.join(LAYERS)}")] = LAYERS[0],
    origin: Annotated[str, typer.Option(help=f"Of the proxy-based loss: a cosine, or {AUTO}")] = "0",
    layout: Annotated[str, typer.Option(help="shared or per_mention; that of CONFIG by default")] = "",
    rate: Annotated[str, typer.Option(help="The highest learning rate, minilm: that of the loss; else CONFIG's")] = "",
    score: Annotated[str, typer.Option(help="How pairs are scored, by spacy_pel.SCORE.v1")] = DUAL,
    m: Annotated[int, typer.Option(min=0, help="That score's m, vectors of an entity or codes; 0: its default")] = 0,
    names: Annotated[bool, typer.Option(help="Whether names and long forms count; the papers have neither")] = False,
) -> None:
    """Write CONFIG with these settings. Every other one stays; so does the similarity that goes with a loss."""
    choices = ((loss, LOSSES, "--loss"), (negatives, NEGATIVES, "--negatives"), (layer, LAYERS, "--layer"))
    for given, known, hint in (*choices, (score, SCORES, "--score")):
        if given not in known:
            raise typer.BadParameter(f"{given}: choose of {', '.join(known)}", param_hint=hint)
    middle = origin if origin == AUTO else number(origin, f"a cosine, or {AUTO}", "--origin")
    highest = RATES[loss] if rate == MINILM else number(rate or "0", f"a number, or {MINILM}", "--rate")
    if m and score not in WITH_M:
        raise typer.BadParameter(f"{score} has none: choose of {', '.join(WITH_M)}", param_hint="--m")
    if LOSSES[loss][0] != "dot" and score not in OF_COSINES:
        raise typer.BadParameter(f"{score} needs dot products: choose of ce, nce", param_hint="--loss")
    if (loss, negatives) == ("nce", "hard"):
        raise typer.BadParameter("nce draws them: choose of random, mixed, sampled", param_hint="--negatives")
    if (margin or middle) and loss != "pb":
        raise typer.BadParameter("only the proxy-based loss has one", param_hint="--margin" if margin else "--origin")
    if p >= 0 and negatives not in ("mixed", "sampled"):
        raise typer.BadParameter(f"it goes with mixed or sampled negatives, not {negatives} ones", param_hint="--p")
    changed = Config().from_disk(config, interpolate=False)
    linker: Any = changed["components"]["pel_linker"]
    similarity, own = LOSSES[loss]
    linker["model"]["similarity"] = similarity
    linker["loss"] = own | ({"alpha": 32.0, "margin": margin, "origin": middle} if loss == "pb" else {})
    linker["negatives"] = section_of(negatives, n, p, independent=loss == "nce")
    linker["adversarial"] = {"@misc": FGSM, "epsilon": epsilon, "weight": 1.0, "layer": layer} if epsilon else None
    if score != DUAL:
        linker["model"]["score"] = {"@architectures": f"spacy_pel.{score}.v1", **({"m": m} if m else {})}
        linker["model"]["pooling"] = "cls"  # single tokens are scored
        if score not in OF_COSINES:
            linker["vectors"] = "entity"  # names have one vector each
    if layout:
        linker["layout"] = layout
    if rate:
        schedule: Any = changed["training"]["optimizer"]["learn_rate"]
        schedule["initial_rate"] = highest
    if not names:
        linker |= {"lexical": None, "resolve_abbreviations": False}
    output.parent.mkdir(parents=True, exist_ok=True)
    changed.to_disk(output)
    share = f" ({p} % hard)" if p >= 0 else ""
    typer.echo(f"{output}: {loss}, {n} {negatives} negatives{share}, FGSM {epsilon:g}, margin {margin:g}, {score}")


def number(given: str, what: str, hint: str) -> float:
    """The number that was given as an option.

    Raises:
        BadParameter: It is none.
    """
    try:
        return float(given)
    except ValueError:
        raise typer.BadParameter(f"{given}: {what}", param_hint=hint) from None


def section_of(negatives: str, n: int, p: int, *, independent: bool) -> dict[str, Any]:
    """The section of these negatives, with the share `p` of hard ones unless it is -1.

    Args:
        negatives: One of `NEGATIVES`.
        n: Of a mention.
        p: Per cent.
        independent: Whether they are drawn with replacement, as `spacy_pel.NCELoss.v1` needs them.
    """
    section = NEGATIVES[negatives] | {"n": n}
    if p >= 0:
        section |= {"@misc": MIXED, "p": p}
    if independent:
        section |= {"replace": True} if negatives == "random" else {"draw": "iid"}
    return section


if __name__ == "__main__":
    typer.run(main)
