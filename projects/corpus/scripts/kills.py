"""SIGKILL at random moments, of a worker or of the driver; the same command again; what has come of the shards."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, NamedTuple

import srsly
import typer
from identical import compared, shards, texts
from processes import is_alive, start, workers

WORKERS = 2
LONGEST = 900.0  # seconds, of a run
DRAWS = 20  # of a moment at which the run is not over yet


class Corpus(NamedTuple):
    """What is linked, by what, and whereto."""

    linker: Path
    source: Path
    work: Path
    engine: str

    @property
    def out(self) -> Path:
        return self.work / "linked"

    @property
    def reference(self) -> Path:
        return self.work / "reference"

    @property
    def log(self) -> Path:
        return self.work / "log.txt"

    def start(self, out: Path) -> subprocess.Popen:
        return start(self.linker, self.source, out, self.engine, WORKERS, self.log)


def main(
    linker: Annotated[Path, typer.Argument(help="A pipeline with its KB")],
    source: Annotated[Path, typer.Argument(help="Folder with shards")],
    work: Annotated[Path, typer.Argument(help="Folder to work in; what is there goes")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    engine: Annotated[str, typer.Option(help="local or ray")] = "local",
    rounds: Annotated[int, typer.Option(min=1, help="Kills of each kind")] = 10,
    seed: Annotated[int, typer.Option(help="Of the moments")] = 0,
) -> None:
    """Link SOURCE, then again while a worker is killed, and again while the driver is, ROUNDS times each."""
    shutil.rmtree(work, ignore_errors=True)
    corpus, draw, rows = Corpus(linker, source, work, engine), random.Random(seed), []
    seconds = link_undisturbed(corpus)
    for number in range(rounds):
        for victim, kill in (("worker", kill_worker), ("driver", kill_driver)):
            row = {"victim": victim, **kill(corpus, draw, seconds)}
            rows.append(row)
            srsly.write_json(output, {"engine": engine, "workers": WORKERS, "seconds": seconds, "rows": rows})
            typer.echo(f"{engine}, {victim} {number + 1}: {row}")
    wrong = [row for row in rows if row["lost"] or row["twice"] or row["differ"] or row["redone"] > allowed(row)]
    if wrong:
        typer.secho(f"✘ {len(wrong)} of {len(rows)} kills: {wrong[0]}", fg="red", err=True)
        raise typer.Exit(1)


def allowed(row: dict[str, Any]) -> int:
    """Shards that may be linked again: one for each worker that was killed."""
    return 1 if row["victim"] == "worker" else WORKERS


def link_undisturbed(corpus: Corpus) -> float:
    """Link the shards to the reference. RETURNS: the seconds for which there were workers."""
    command = corpus.start(corpus.reference)
    wait_for_workers(command)
    begin = monotonic()
    finish(command, corpus)
    return monotonic() - begin


def kill_worker(corpus: Corpus, draw: random.Random, seconds: float) -> dict[str, Any]:
    """Kill a worker; the command goes on."""
    command, after, pids = run_until(corpus, draw, seconds)
    before = written(corpus.out)
    os.kill(draw.choice(pids), signal.SIGKILL)
    finish(command, corpus)
    deaths = corpus.log.read_text().count("its worker has died")
    return {"after": after, "done": len(before), **judged(corpus, before, begun=deaths)}


def kill_driver(corpus: Corpus, draw: random.Random, seconds: float) -> dict[str, Any]:
    """Kill the driver; its workers must end; the command is given again."""
    command, after, pids = run_until(corpus, draw, seconds)
    command.kill()
    command.wait()
    wait_until(lambda: not any(map(is_alive, pids)), "workers that outlive their driver")
    before, begun = written(corpus.out), half_written(corpus)
    differ = [name for name in shards(corpus.out) if not same(corpus, name)]
    finish(corpus.start(corpus.out), corpus)
    found = judged(corpus, before, begun)
    return {"after": after, "done": len(before), **found, "differ": found["differ"] + len(differ)}


def run_until(corpus: Corpus, draw: random.Random, seconds: float) -> tuple[subprocess.Popen, float, list[int]]:
    """Begin to link, up to a random moment of the time for which there are workers."""
    for _ in range(DRAWS):
        shutil.rmtree(corpus.out, ignore_errors=True)
        command = corpus.start(corpus.out)
        wait_for_workers(command)
        after = draw.uniform(0, seconds)
        sleep(after)
        if command.poll() is None and len(pids := workers(command.pid)) == WORKERS:
            return command, round(after, 2), pids
        finish(command, corpus)
    raise typer.BadParameter("the run is over before anything can be killed; take more abstracts")


def judged(corpus: Corpus, before: dict[str, int], begun: int) -> dict[str, int]:
    """What has come of the shards in the end.

    Args:
        corpus: What was linked.
        before: When each shard was written that was done at the kill.
        begun: Shards that were begun, and lost with the killed.
    """
    after, result = written(corpus.out), compared(corpus.reference, corpus.out)
    found = texts(corpus.source, corpus.out)
    again = sum(after.get(name) != time for name, time in before.items())
    left = half_written(corpus)
    counts = {"lost": found["lost"], "twice": found["twice"], "differ": len(result["differ"]) + left}
    return counts | {"redone": begun + again}


def written(folder: Path) -> dict[str, int]:
    """When each shard was written."""
    return {name: path.stat().st_mtime_ns for name, path in shards(folder).items()} if folder.exists() else {}


def half_written(corpus: Corpus) -> int:
    """Shards under temporary names."""
    names = set(shards(corpus.source))
    return sum(path.name[1:].rpartition(".")[0].rpartition(".")[0] in names for path in corpus.out.glob(".*.tmp"))


def same(corpus: Corpus, name: str) -> bool:
    return (corpus.out / name).read_bytes() == (corpus.reference / name).read_bytes()


def wait_for_workers(command: subprocess.Popen) -> None:
    wait_until(lambda: command.poll() is not None or len(workers(command.pid)) == WORKERS, "no workers")


def finish(command: subprocess.Popen, corpus: Corpus) -> None:
    """Wait for the end of a command.

    Raises:
        typer.Exit: It has failed.
    """
    if command.wait(timeout=LONGEST):
        typer.secho(f"✘ {corpus.log.read_text()[-2000:]}", fg="red", err=True)
        raise typer.Exit(1)


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    until = monotonic() + LONGEST
    while not holds():
        if monotonic() > until:
            raise TimeoutError(otherwise)
        sleep(0.1)


if __name__ == "__main__":
    typer.run(main)
