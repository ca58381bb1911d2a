"""Kills a function at a chosen one of its I/O calls: in a forked child, which is killed before it makes that call."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

CALLS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def count_calls(action: Callable[[], object]) -> int:
    """How many I/O calls that change something `action` makes, one at least. It is run in a child, and may not fail."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        calls = _watch(None)
        status = _status(action)
        os.write(writing, str(len(calls)).encode())
        os._exit(status)
    with open(reading) as file:
        os.close(writing)
        assert os.waitpid(child, 0)[1] == 0, "it fails"
        count = int(file.read())
    assert count
    return count


def kill_at(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child that is killed before its I/O call `number`, from 0. Whether it was."""
    child = os.fork()
    if not child:
        _watch(number)
        os._exit(_status(action))
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def _status(action: Callable[[], object]) -> int:
    """The exit status of a process that does `action`, as Python has it."""
    try:
        action()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _watch(kill_at: int | None) -> list[str]:
    calls: list[str] = []

    def hook(event: str, arguments: tuple) -> None:
        if event in CALLS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            if len(calls) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls.append(event)

    sys.addaudithook(hook)
    return calls
