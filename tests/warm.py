"""Python commands without the ten seconds that imports take: each is a fork of one process that has imported what they
need, and so is each command that they start by `subprocess.run`."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from select import select
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # the threads of a process are not in its forks


class _Python:
    """The process that forks, in a group of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | ONE_THREAD,
        )

    def run(self, arguments: list[str], seconds: float) -> subprocess.CompletedProcess:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("out", "err")]
            try:
                request = {"arguments": arguments, "cwd": os.getcwd(), "environment": os.environ | ONE_THREAD}
                request |= {"out": str(files[0]), "err": str(files[1])}
                print(json.dumps(request), file=stdin, flush=True)
                if not select([stdout], [], [], seconds)[0]:
                    raise TimeoutError(f"{arguments} after {seconds} seconds")
                status = int(stdout.readline())
            except BaseException:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                _python.cache_clear()
                raise
            out, err = (file.read_text(encoding="utf-8") for file in files)
        return subprocess.CompletedProcess(arguments, status, out, err)


@cache
def _python() -> _Python:
    """The one of this process."""
    return _Python()


def run_python(*arguments: object, seconds: float = 300, cold: bool = False) -> subprocess.CompletedProcess:
    """What `python ARGUMENTS` prints, and its exit status.

    Args:
        cold: Whether it and what it starts are processes of their own from the start, as those of a user are.

    Raises:
        TimeoutError, subprocess.TimeoutExpired: After `seconds`; the latter if it is `cold`.
    """
    words = [str(word) for word in arguments]
    if cold or not hasattr(os, "fork"):
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds)
    return _python().run(words, seconds)


def _serve() -> None:
    """Do what the lines of stdin ask for, and answer each with an exit status."""
    answers = os.fdopen(os.dup(1), "w")  # commands print to others
    subprocess.run = _run  # type: ignore[assignment]
    for line in sys.stdin:
        given = json.loads(line)
        print(forked(lambda given=given: _redirected(**given)), file=answers, flush=True)


def _redirected(arguments: list[str], cwd: str, environment: dict[str, str], out: str, err: str) -> None:
    for stream, path in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), stream)
    os.chdir(cwd)
    _main(arguments, environment)


def _main(arguments: list[str], environment: dict[str, str]) -> None:
    """What `python` does with `-m MODULE ...` or `SCRIPT ...` in an environment."""
    os.environ.clear()
    os.environ.update(environment)
    before = sys.path[0]
    for name, module in list(sys.modules.items()):  # those beside the script that has started this one
        if (file := getattr(module, "__file__", None)) and name != "__main__" and os.path.dirname(file) == before:
            del sys.modules[name]
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")


_subprocess_run: Any = subprocess.run


def _run(command: Any, **settings: Any) -> subprocess.CompletedProcess:
    """`subprocess.run` of Python commands by a fork, unless their input or output is the caller's."""
    mine = isinstance(command, list) and command[0] == sys.executable and len(command) > 1
    if not mine or command[1] == "-c":
        return _subprocess_run(command, **settings)
    if any(settings.get(name) is not None for name in ("stdin", "input", "stdout", "stderr", "capture_output", "cwd")):
        return _subprocess_run(command, **settings)

    environment = settings.get("env") or os.environ.copy()
    status = forked(lambda: _main(command[1:], environment))
    if settings.get("check") and status:
        raise subprocess.CalledProcessError(status, command)
    return subprocess.CompletedProcess(command, status)


if __name__ == "__main__":
    import spacy.cli  # noqa: F401
    import weasel.cli.main  # noqa: F401
    from forks import forked

    import spacy_pel.cli  # noqa: F401

    _serve()
