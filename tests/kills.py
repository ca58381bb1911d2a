"""Kills a function at a chosen one of its I/O calls: in a forked child, which is killed before it makes that call."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

CALLS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def count_calls(action: Callable[[], object]) -> int:
    """How many I/O calls that change something `action` makes. It is run in a child."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        calls = _watch(None)
        try:
            action()
        finally:
            os.write(writing, str(len(calls)).encode())
            os._exit(0)
    os.waitpid(child, 0)
    with open(reading) as file:
        os.close(writing)
        return int(file.read())


def kill_at(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child that is killed before its I/O call `number`, from 0. Whether it was."""
    child = os.fork()
    if not child:
        _watch(number)
        try:
            action()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def _watch(kill_at: int | None) -> list[str]:
    calls: list[str] = []

    def hook(event: str, arguments: tuple) -> None:
        if event in CALLS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            if len(calls) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls.append(event)

    sys.addaudithook(hook)
    return calls
