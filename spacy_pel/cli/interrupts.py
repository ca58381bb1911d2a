"""Ctrl-C and SIGTERM that wait until what has been begun is done, and SIGTERM that ends a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM has come, as Slurm, Kubernetes, systemd and `kill` send it."""


def status_after(interrupt: KeyboardInterrupt) -> int:
    """The status with which a command ends that was interrupted, as a shell has it."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


@contextmanager
def terminable() -> Iterator[None]:
    """The first SIGTERM within the block raises `Terminated`; others are passed over, so that what it leads to is done
    in peace. For the main thread only. Forked processes end at once, as they do elsewhere."""
    own = os.getpid()
    arrived: list[int] = []

    def terminate(number: int, frame: Any) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        elif not arrived:
            arrived.append(number)
            raise Terminated

    handler = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """A SIGINT or SIGTERM that arrives within the block takes effect at its end. For the main thread only."""
    arrived: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
