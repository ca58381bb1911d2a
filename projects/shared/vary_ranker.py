"""A training config of a ranker with FGSM or without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from thinc.api import Config


def main(
    config: Annotated[Path, typer.Argument(help="The training config")],
    output: Annotated[Path, typer.Argument(help="The config to write")],
    epsilon: Annotated[float, typer.Option(help="FGSM's step; 0: no FGSM")] = 0.0,
    tokens: Annotated[str, typer.Option(help="What it steps on: entity, or all for the whole row")] = "entity",
) -> None:
    """Write CONFIG with these settings. Every other one stays."""
    changed = Config().from_disk(config, interpolate=False)
    ranker: Any = changed["components"]["pel_ranker"]
    fgsm = {"@misc": "spacy_pel.FGSM.v1", "epsilon": epsilon, "weight": 1.0, "layer": "sum", "tokens": tokens}
    ranker["adversarial"] = fgsm if epsilon else None
    output.parent.mkdir(parents=True, exist_ok=True)
    changed.to_disk(output)
    typer.echo(f"{output}: FGSM {epsilon:g}")


if __name__ == "__main__":
    typer.run(main)
