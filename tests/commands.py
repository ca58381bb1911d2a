"""Commands in this process, and in processes of their own, which tests wait for and kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from spacy_pel.cli import pel_app

TIME_LIMIT = 500  # seconds
TO_END = 20


def pel(*words: Any, **settings: Any) -> Result:
    """`spacy pel` with `words`, in this process."""
    return CliRunner().invoke(pel_app, [str(word) for word in words], **settings)


def one_line(result: Result) -> str:
    """The only line of the error that the command has ended with."""
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.strip().splitlines()
    return line


@contextmanager
def started(*words: Any) -> Iterator[subprocess.Popen]:
    """`spacy pel` with `words`, which is killed at the end if it still runs. Its stderr can be read."""
    command = [sys.executable, "-m", "spacy", "pel", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(flag: Path) -> str:
    """What a process has written to the file `flag`, once it is there."""
    until = time.monotonic() + TIME_LIMIT
    while not flag.exists():
        assert time.monotonic() < until, f"no {flag}"
        time.sleep(0.05)
    return flag.read_text()


def gone(pid: int | str) -> bool:
    """Whether a process ends within `TO_END` seconds."""
    until = time.monotonic() + TO_END
    while time.monotonic() < until:
        if not _runs(int(pid)):
            return True
        time.sleep(0.05)
    return False


def _runs(pid: int) -> bool:
    """Whether a process is there; a zombie, where /proc tells it from others, is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return True
