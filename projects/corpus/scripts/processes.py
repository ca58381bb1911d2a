"""The processes of a `link` that runs: its workers and what they hold in memory (Linux)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
WORKER = re.compile(rb"multiprocessing\.spawn|^ray::Actor")
PINNED = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
ROLLUP = ("Rss", "Pss", "Pss_Anon", "Pss_File")
KIB = 1024


def start(linker: Path, source: Path, out: Path, engine: str, processes: int, log: Path) -> subprocess.Popen:
    """Begin to link the shards of `source`, with one thread a process. What the command says goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "spacy", "pel", "link", linker, source, out, "--engine", engine]
    words = [str(word) for word in (*command, "--processes", processes)]
    with log.open("wb") as file:
        return subprocess.Popen(words, stderr=file, env={**os.environ, **PINNED})


def workers(driver: int) -> list[int]:
    """The processes that link for `driver`."""
    return sorted(pid for pid in descendants(driver) if WORKER.search(command_line(pid)))


def descendants(pid: int) -> list[int]:
    """The processes below `pid`."""
    children: dict[int, list[int]] = {}
    for other in (int(path.name) for path in PROC.iterdir() if path.name.isdigit()):
        with suppress(OSError):
            parent = int((PROC / str(other) / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(other)
    below, found = [pid], []
    while below:
        new = children.get(below.pop(), [])
        found += new
        below += new
    return found


def command_line(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def memory(pid: int) -> dict[str, float]:
    """MB of a process: all of `ROLLUP`."""
    text = (PROC / str(pid) / "smaps_rollup").read_text()
    return {key: int(re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)[1]) / KIB for key in ROLLUP}


def mapped(pid: int, folder: Path) -> dict[str, float]:
    """MB of the files below `folder` that a process maps: "Rss", and its share of them, "Pss"."""
    sums, inside, start = {"Rss": 0.0, "Pss": 0.0}, False, f"{folder.resolve()}{os.sep}"
    for line in (PROC / str(pid) / "smaps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if not words[0].endswith(":"):
            inside = len(words) == 6 and words[5].startswith(start)
        elif inside and (key := words[0].removesuffix(":")) in sums:
            sums[key] += int(words[1]) / KIB
    return sums
