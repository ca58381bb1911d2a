"""Let a linker search each mention in its own world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; it is changed")],
    worlds: Annotated[str, typer.Argument(help="Labels of mentions that are types of entities, with commas between")],
) -> None:
    """Set `types_by_label` of the linker: a mention with one of these labels is searched among the entities of that
    type only."""
    types_by_label = {world: [world] for world in worlds.split(",")}
    spacy.load(pipeline, config={"components.pel_linker.types_by_label": types_by_label}).to_disk(pipeline)


if __name__ == "__main__":
    typer.run(main)
