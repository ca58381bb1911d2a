"""`spacy pel table`: the measures of several evaluations as one Markdown table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer

from ..checks import shown
from ..errors import PelError
from .app import command
from .out_file import check_out
from .printing import echo, msg

COLUMNS = (
    *("n_mentions", "n_in_kb", "recall_at_1", "recall_at_5", "recall_at_64", "mrr"),
    *("seen_recall_at_1", "unseen_recall_at_1", "nil_auprc", "nil_base_rate"),
)
FIRST = "baseline-"  # files of that name come first
SEED = re.compile(r"-\d+$")  # at the end of a file's name


@command("table")
def table(
    metrics: Annotated[Path, typer.Argument(help="Folder with JSON files of measures", metavar="METRICS_DIR")],
    columns: Annotated[str, typer.Option(help="Measures to show, comma-separated")] = ",".join(COLUMNS),
    output: Annotated[Path | None, typer.Option(help="Also write the table here", metavar="TABLE.md")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="A row a measure, a column a file")] = False,
    seeds: Annotated[
        bool,
        typer.Option(
            "--over-seeds", help='One row for the files NAME-0, NAME-1 …, of the same "settings": mean (least–greatest)'
        ),
    ] = False,
) -> None:
    """Print the measures that `evaluate --output` and `baselines` wrote, a row a file, as a Markdown table.

    Baselines come first, then the other files by name. "–" is a measure with nothing to measure.

    Example: python -m spacy pel table metrics --columns recall_at_1,recall_at_64 --output metrics/table.md
    """
    from ..files.atomic import write_atomically

    if output:
        _check_output(output, metrics)
    keys = [key.strip() for key in columns.split(",") if key.strip()]
    found = read_metrics(metrics)
    known = {key for values in found.values() for key, value in values.items() if value is None or _is_number(value)}
    if not keys or (unknown := [key for key in keys if key not in known]):
        what = f'no file has a number "{unknown[0]}"' if keys else "no measure is named"
        raise PelError(f"{metrics}: {what}; --columns takes any of {', '.join(sorted(known))}.")
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    for name, values in found.items():
        runs.setdefault(SEED.sub("", name) if seeds else name, {})[str(metrics / f"{name}.json")] = values
    rows = [["", *keys]]
    for name, own in runs.items():
        check_seeds(own)
        rows.append([name, *(over_seeds(key, (one.get(key) for one in own.values())) for key in keys)])
    text = markdown(list(zip(*rows, strict=True)) if transpose else rows)
    echo(text)
    if output:
        write_atomically(output, text.encode())
        msg.good(f"Wrote {output}")


def _check_output(output: Path, metrics: Path) -> None:
    """Check that the table becomes none of the files of measures, which it would be read with the next time."""
    for file in metrics.glob("*.json"):
        check_out(output, file, "one of the files to read", force=True)
    if output.suffix == ".json" and output.resolve().parent == metrics.resolve():
        raise PelError(f"{output} would be read as measures by the next `table`; give it another suffix, such as .md.")


def read_metrics(folder: Path) -> dict[str, dict[str, Any]]:
    """Read all JSON files of a folder.

    Returns:
        Measures by the name of their file, baselines first.

    Raises:
        PelError: If it is no folder, it has no JSON file, or one of them holds something else than measures.
    """
    if folder.is_file():
        raise PelError(f"{folder} is a file: name the folder that it is in.")
    paths = sorted(folder.glob("*.json"), key=lambda path: (not path.stem.startswith(FIRST), path.stem))
    if not paths:
        raise PelError(f"{folder} has no JSON file: write one with `spacy pel evaluate … --output {folder}/dev.json`.")
    return {path.stem: read_measures(path) for path in paths}


def read_measures(path: Path) -> dict[str, Any]:
    """The measures in a JSON file.

    Raises:
        PelError: It holds something else.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise PelError(f"{path} is not JSON ({error}): remove it, or evaluate again.") from error
    if not isinstance(values, dict):
        raise PelError(f"{path} holds no measures: move it out of {path.parent}.")
    return values


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return `rows`, the first of them the header, as a Markdown table with numbers to the right."""
    header, *body = rows
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(key: str, value: float | None) -> str:
    """Return a count or rate as a whole number, a measure with three places, None as a dash."""
    if value is None:
        return "–"
    if not _is_number(value):
        raise PelError(f'"{key}" is {json.dumps(value)[:40]} in one of the files, and a table shows numbers only.')
    whole = isinstance(value, int) or key.startswith("n_") or key.endswith(("_per_second", "_seconds"))
    return f"{value:,.0f}" if whole else f"{value:.3f}"


def over_seeds(key: str, values: Iterable[float | None]) -> str:
    """The `cell` of a measure of several runs: the mean of those that have it, with the least and the greatest
    unless all are the same."""
    there = [value for value in values if value is not None]
    cells = [cell(key, value) for value in there]
    if len(set(there)) < 2:
        return cells[0] if cells else cell(key, None)
    average, least, greatest = (cell(key, one) for one in (mean(there), min(there), max(there)))
    return f"{average} ({least}–{greatest})"


def check_seeds(runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that runs can be averaged. runs: measures by the name of their file.

    Raises:
        PelError: Two of them are over another number of mentions, or the settings that were noted with them differ.
    """
    (first, one), *others = ((name, _settings(values)) for name, values in runs.items())
    for name, other in others:
        for key in (*one, *other):
            if one.get(key) != other.get(key):
                values = f"{shown(one.get(key))} and {shown(other.get(key))}"
                raise PelError(
                    f'{first} and {name} differ in "{key}" ({values}), so they are no seeds of one run: '
                    "run one of them again as the other, or move it to another folder."
                )


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What decides measures besides a seed, as far as their file says."""
    noted = values.get("settings", {})
    return {"n_mentions": values.get("n_mentions"), **(noted if isinstance(noted, dict) else {"settings": noted})}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
