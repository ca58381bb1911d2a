"""Check that ZESHEL is there, before anything is written: its files cannot be downloaded by a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SPLITS = ("train", "heldout_train_seen", "heldout_train_unseen", "val", "test")


def main(
    folder: Annotated[Path, typer.Argument(help="ZESHEL as it is published: documents/ and mentions/")],
    worlds: Annotated[list[str], typer.Argument(help="The worlds that are wanted, with commas between them")],
) -> None:
    """Say what is missing, if anything is."""
    wanted = [folder / "documents" / f"{world}.json" for group in worlds for world in group.split(",")]
    wanted += [folder / "mentions" / f"{split}.json" for split in SPLITS]
    if missing := [str(path) for path in wanted if not path.is_file()]:
        hint = "get ZESHEL from https://github.com/lajanugen/zeshel and point --vars.data to its folder"
        typer.secho(f"✘ {len(missing)} files are not there, such as {missing[0]}: {hint}", fg="red", err=True)
        raise typer.Exit(1)
    typer.echo(f"{folder}: all {len(wanted)} files are there")


if __name__ == "__main__":
    typer.run(main)
