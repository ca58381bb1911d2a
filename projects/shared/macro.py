"""The table of linkers that were measured world by world, with the averages over the worlds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from spacy_pel.cli.table import cell, markdown, read_measures
from spacy_pel.errors import PelError

COLUMNS = ("recall_at_1", "recall_at_64", "recall_at_16")
NORMALISED = "normalised_accuracy"  # of runs with a ranker
MENTIONS = {NORMALISED: "n_offered"}  # that a measure is over; else those in the KB


def main(
    metrics: Annotated[Path, typer.Argument(help="Folder of metrics/ROW/WORLD.json")],
    worlds: Annotated[
        list[str], typer.Argument(help="The columns, also with commas; the averages are over all of them")
    ],
    output: Annotated[Path, typer.Option(help="Also write the table here")],
    micro: Annotated[bool, typer.Option("--micro", help="The share of all mentions beside the macro average")] = False,
) -> None:
    """Print recall of each world, and its macro average: the mean over worlds, however many mentions each has. A row
    that was not measured on all worlds has none. Where a run has a ranker, print its `normalised_accuracy` too:
    recall@1 over the mentions whose entity is among the candidates that are ranked again."""
    worlds = [world for group in worlds for world in group.split(",")]
    averages = ("macro", "micro") if micro else ("macro",)
    try:
        runs = read_runs(metrics, worlds)
    except PelError as error:
        typer.secho(f"✘ {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    is_ranked = any(NORMALISED in one for measured in runs.values() for one in measured.values())
    columns = (*COLUMNS, NORMALISED) if is_ranked else COLUMNS
    rows = [["", *(f"{world} {key}" for key in columns for world in (*worlds, *averages))]]
    for name, measured in runs.items():
        values = [(key, one) for key in columns for one in recalls(measured, worlds, key, micro)]
        rows.append([name, *(cell(key, one) for key, one in values)])
    text = markdown(rows)
    typer.echo(text)
    output.write_text(text, encoding="utf-8")


def read_runs(metrics: Path, worlds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The measures of each row in each of the worlds.

    Raises:
        PelError: There are none, or a file holds something else.
    """
    runs: dict[str, dict[str, Any]] = {}
    for folder in sorted(path for path in metrics.glob("*") if path.is_dir()):
        found = {world: folder / f"{world}.json" for world in worlds if (folder / f"{world}.json").is_file()}
        if found:
            runs[folder.name] = {world: read_measures(path) for world, path in found.items()}
    if not runs:
        raise PelError(f"{metrics} has no ROW/WORLD.json of {', '.join(worlds)}: evaluate a linker on them first")
    return runs


def recalls(measured: dict[str, Any], worlds: Sequence[str], key: str, micro: bool) -> list[float | None]:
    """That measure of each world, None where it was not taken, the mean of all, and if wanted of their mentions."""
    values = [measured.get(world, {}).get(key) for world in worlds]
    there = [value for value in values if value is not None]
    whole = len(there) == len(worlds)
    averages = [fmean(there) if whole else None]
    if micro:
        counts = [measured[world][MENTIONS.get(key, "n_in_kb")] for world in worlds] if whole else []
        averages.append(fmean(there, counts) if whole else None)
    return [*values, *averages]


if __name__ == "__main__":
    typer.run(main)
