"""The tables of the README, from what the other commands have measured."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import srsly
import typer

from spacy_pel.files.atomic import write_atomically

RUNS = {"one": "one process", "two": "two workers", "ray": "two workers of Ray"}
PUBMED = 36_000_000  # abstracts


class Part(str, Enum):
    memory = "memory"
    cost = "cost"
    all = "all"


def main(
    part: Annotated[Part, typer.Argument(help="What to print")],
    metrics: Annotated[Path, typer.Argument(help="Folder with the measures")],
    output: Annotated[Path | None, typer.Option(help="Markdown to write")] = None,
) -> None:
    """Print tables, and write them to OUTPUT. What has not been measured is left out."""
    runs = {name: srsly.read_json(path) for name in RUNS if (path := metrics / f"{name}.json").is_file()}
    parts = {"speed": speed(runs), "memory": memory(runs), "cost": cost(runs), "kills": kills(metrics)}
    parts["identical"] = identical(metrics)
    wanted = list(parts) if part is Part.all else [part.value]
    text = "\n\n".join("\n".join(parts[name]) for name in wanted if parts[name]) + "\n"
    typer.echo(text)
    if output:
        write_atomically(output, text.encode())


def rows(header: list[str], cells: list[list[Any]]) -> list[str]:
    """A table in Markdown; nothing without rows."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *cells]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines] if cells else []


def speed(runs: dict[str, dict]) -> list[str]:
    """Seconds and mentions a second, whole commands and once all workers are at work."""
    one = runs.get("one")
    cells = []
    for name, run in runs.items():
        ratios = [beside(rates(run)[i], rates(one)[i] if one else None) for i in range(2)]
        counts = (f"{run['texts']:,}", f"{run['mentions']:,}", f"{run['seconds']:,.0f}")
        cells.append([RUNS[name], *counts, *ratios, f"{run['load_before']:.1f}"])
    header = ["", "texts", "mentions", "s", "mentions/s", "after loading", "load before"]
    return rows(header, cells)


def rates(run: dict[str, Any]) -> tuple[float, float | None]:
    """Mentions a second of the whole command, and once all workers are at work."""
    return run["mentions"] / run["seconds"], run["steady_mentions_per_second"]


def beside(rate: float | None, base: float | None) -> str:
    """A rate, and how many times that of one process it is."""
    return f"{rate:,.0f} ({rate / base:.2f} ×)" if rate and base else "–"


def memory(runs: dict[str, dict]) -> list[str]:
    """MB of the workers in the second and in the last quarter of each run, from when the KB is mapped; and what of the
    KB they share."""
    cells = []
    for name, run in runs.items():
        loaded = [sample for sample in run["samples"] if sample["kb_Rss"]]
        times = [sample["seconds"] for sample in loaded] or [0]
        second, third, last = (min(times) + (max(times) - min(times)) * share for share in (0.25, 0.5, 0.75))
        early = [sample for sample in loaded if second <= sample["seconds"] < third]
        late = [sample for sample in loaded if sample["seconds"] >= last]
        if not early or not late:
            continue
        pairs = [tuple(mean(sample[key] for sample in part) for part in (early, late)) for key in ("Pss_Anon", "Pss")]
        shown = [f"{before:,.0f} → {after:,.0f}" for before, after in pairs]
        rss = max(sample["Rss"] for sample in run["samples"])
        kb = [mean(sample[key] for sample in late) for key in ("kb_Rss", "kb_Pss")]
        cells.append([RUNS[name], *shown, f"{rss:,.0f}", *(f"{value:,.0f}" for value in kb)])
    header = ["MB of a worker", "anonymous (Pss)", "all (Pss)", "largest Rss", "KB mapped", "its share (Pss)"]
    return rows(header, cells)


def cost(runs: dict[str, dict]) -> list[str]:
    """Core hours for PubMed."""
    cells = []
    for name, run in runs.items():
        if rate := run["steady_mentions_per_second"]:
            each, a_core = run["mentions"] / run["texts"], rate / run["processes"]
            hours = PUBMED * each / a_core / 3600
            cells.append([RUNS[name], f"{each:.1f}", f"{a_core:,.0f}", f"{hours:,.0f}", f"{hours / 1000:.1f}"])
    header = ["", "mentions/abstract", "mentions/s of a core", f"core hours for {PUBMED:,}", "hours on 1,000 cores"]
    return rows(header, cells)


def kills(metrics: Path) -> list[str]:
    """What has come of the kills, by engine and by what was killed."""
    cells = []
    for path in sorted(metrics.glob("kills-*.json")):
        found = srsly.read_json(path)
        for victim in dict.fromkeys(row["victim"] for row in found["rows"]):
            own = [row for row in found["rows"] if row["victim"] == victim]
            done = [row["done"] for row in own]
            sums = [sum(row[key] for row in own) for key in ("lost", "twice", "differ")]
            most = max(row["redone"] for row in own)
            cells.append([f"{found['engine']}: {victim}", len(own), f"{min(done)}–{max(done)}", *sums, most])
    header = ["SIGKILL", "times", "shards done then", "texts lost", "twice", "files differ", "redone at most"]
    return rows(header, cells)


def identical(metrics: Path) -> list[str]:
    """What differs from the output of one process."""
    path = metrics / "identical.json"
    others = srsly.read_json(path)["others"] if path.is_file() else {}
    cells = [[RUNS[name], f"{one['files']:,}", f"{one['bytes']:,}", len(one["differ"])] for name, one in others.items()]
    return rows(["beside one process", "files", "bytes", "files differ"], cells)


if __name__ == "__main__":
    typer.run(main)
