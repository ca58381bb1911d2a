"""Ctrl-C that waits until what has been begun is done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """A SIGINT that arrives within the block takes effect at its end. For the main thread only."""
    arrived = []
    handler = signal.signal(signal.SIGINT, lambda *_: arrived.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)
