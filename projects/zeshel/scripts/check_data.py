"""Check that ZESHEL is there, before anything is written: its files cannot be downloaded by a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SPLITS = ("train", "heldout_train_seen", "heldout_train_unseen", "val", "test")
PUBLISHED = {"train": (332_632, 49_275), "val": (89_549, 10_000), "test": (70_140, 10_000)}  # entities, mentions


def main(
    folder: Annotated[Path, typer.Argument(help="ZESHEL as it is published: documents/ and mentions/")],
    worlds: Annotated[list[str], typer.Argument(help="Those of train, val and test, with commas between them")],
) -> None:
    """Say what is missing, if anything is; else count entities and mentions (Wiatrak et al. 2022, table 1)."""
    groups = [group.split(",") for group in worlds]
    wanted = [folder / "documents" / f"{world}.json" for group in groups for world in group]
    wanted += [folder / "mentions" / f"{split}.json" for split in SPLITS]
    if missing := [str(path) for path in wanted if not path.is_file()]:
        hint = "get ZESHEL from https://github.com/lajanugen/zeshel and point --vars.data to its folder"
        typer.secho(f"✘ {len(missing)} files are not there, such as {missing[0]}: {hint}", fg="red", err=True)
        raise typer.Exit(1)
    if empty := [str(path) for path in wanted if not has_records(path)]:
        typer.secho(f"✘ {len(empty)} files have no records, such as {empty[0]}: copy them again", fg="red", err=True)
        raise typer.Exit(1)
    typer.echo(f"{folder}: all {len(wanted)} files are there")
    typer.echo("\n".join(statistics(folder, groups)))


def statistics(folder: Path, groups: list[list[str]]) -> list[str]:
    """What there is of each split, beside what is published."""
    lines = ["| | worlds | entities | published | mentions | published |", "| --- |" + " ---: |" * 5]
    for (split, (entities, mentions)), worlds in zip(PUBLISHED.items(), groups, strict=False):
        own = sum(count(folder / "documents" / f"{world}.json") for world in worlds)
        asked = count(folder / "mentions" / f"{split}.json")
        lines.append(f"| {split} | {len(worlds)} | {own:,} | {entities:,} | {asked:,} | {mentions:,} |")
    return lines


def has_records(path: Path) -> bool:
    with path.open("rb") as file:
        return any(line.strip() for line in file)


def count(path: Path) -> int:
    """The records of a file of JSON lines."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


if __name__ == "__main__":
    typer.run(main)
