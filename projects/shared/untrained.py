"""Save the pipeline as the training config initialises it, before any step: the baseline of the pretrained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from spacy.training.initialize import init_nlp
from spacy.util import load_config

# Names and long forms would link well beside any encoder
BY_VECTORS = {"components.pel_linker.lexical": None, "components.pel_linker.resolve_abbreviations": False}


def main(
    config: Annotated[Path, typer.Argument(help="The training config")],
    output: Annotated[Path, typer.Argument(help="Folder for the pipeline")],
) -> None:
    """Initialise and save; `python -m spacy pel index` then encodes the KB with it."""
    nlp = init_nlp(load_config(config, overrides=BY_VECTORS, interpolate=False))
    output.parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(output)
    typer.echo(f"{output}: {', '.join(nlp.pipe_names)}, untrained")


if __name__ == "__main__":
    typer.run(main)
