"""Link the shards once: the time it takes, and what the workers hold in memory meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from time import perf_counter, sleep
from typing import Annotated, Any

import srsly
import typer
from processes import mapped, memory, start, workers

SECONDS = 2.0  # between two looks at the workers
QUIET = 0.5  # of the load average: above it, other work runs here


def main(
    linker: Annotated[Path, typer.Argument(help="A pipeline with its KB")],
    source: Annotated[Path, typer.Argument(help="Folder with shards")],
    out: Annotated[Path, typer.Argument(help="Folder for the linked ones; what is there goes")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    processes: Annotated[int, typer.Option(min=1)] = 1,
    engine: Annotated[str, typer.Option(help="local or ray")] = "local",
) -> None:
    """Link the shards of SOURCE to OUT, and write the measures to OUTPUT."""
    shutil.rmtree(out, ignore_errors=True)
    load, log, begin, samples = os.getloadavg()[0], output.with_suffix(".log"), perf_counter(), []
    if load > QUIET:
        typer.secho(f"⚠ The load average is {load:.1f}: other work runs here, and the times mean little.", err=True)
    command = start(linker, source, out, engine, processes, log)
    while command.poll() is None:
        samples += looked_at(command.pid, linker, perf_counter() - begin)
        sleep(SECONDS)
    seconds = perf_counter() - begin
    if command.returncode:
        typer.secho(f"✘ {engine}: {log.read_text()[-2000:]}", fg="red", err=True)
        raise typer.Exit(1)
    counts = srsly.read_json(out / "_manifest.json")["counts"]
    found = {"engine": engine, "processes": processes, **counts, "load_before": load, "seconds": seconds}
    srsly.write_json(output, found | {"steady_mentions_per_second": steady(out, processes), "samples": samples})
    typer.echo(f"{output}: {counts['texts']:,} texts, {counts['mentions']:,} mentions, {seconds:.1f} s")


def looked_at(driver: int, linker: Path, at: float) -> list[dict[str, Any]]:
    """What each worker holds now: MB of it all, and of the files of the KB that it maps."""
    found = []
    for pid in workers(driver):
        try:
            kb = {f"kb_{key}": value for key, value in mapped(pid, linker).items()}
            found.append({"pid": pid, "seconds": at, **memory(pid), **kb})
        except (OSError, TypeError):  # it has ended meanwhile
            continue
    return found


def steady(out: Path, workers: int) -> float | None:
    """Mentions a second from when as many shards are done as there are workers, until the last one is."""
    reports = sorted((out / "_reports").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    if len(reports) <= workers:
        return None
    first, last = (reports[i].stat().st_mtime for i in (workers - 1, -1))
    return sum(srsly.read_json(path)["mentions"] for path in reports[workers:]) / (last - first)


if __name__ == "__main__":
    typer.run(main)
