"""Write and print metrics/table.md: a row (or a column) for every metrics/*.json, baselines first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

COUNTS = {"n_mentions", "n_in_kb", "n_nil", "n_unannotated", "n_ambiguous"}


def main(
    metrics: Annotated[Path, typer.Argument(help="Folder with the JSON files of `evaluate` and of the baselines")],
    columns: Annotated[str, typer.Argument(help="Comma-separated keys of those files")],
    transpose: Annotated[
        bool, typer.Option("--transpose", help="A row for every key, a column for every file")
    ] = False,
) -> None:
    """The table in Markdown, to METRICS/table.md and to the terminal."""
    paths = sorted(metrics.glob("*.json"), key=lambda path: (not path.stem.startswith("baseline-"), path.stem))
    if not paths:
        typer.secho(f"✘ {metrics} holds no .json file: run `evaluate` first", fg="red", err=True)
        raise typer.Exit(1)
    keys = columns.split(",")
    rows = [["", *keys], *(row(path, keys) for path in paths)]
    header, *body = zip(*rows, strict=True) if transpose else rows
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    (metrics / "table.md").write_text(table, encoding="utf-8")
    typer.echo(table)


def row(path: Path, keys: list[str]) -> list[str]:
    values: Any = srsly.read_json(path)
    return [path.stem, *(cell(key, values.get(key)) for key in keys)]


def cell(key: str, value: float | None) -> str:
    """Counts and rates as whole numbers, measures to three places, a measure with nothing to measure as a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if key in COUNTS or key.endswith("_per_second") else f"{value:.3f}"


if __name__ == "__main__":
    typer.run(main)
