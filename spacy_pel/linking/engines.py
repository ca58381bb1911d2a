"""Shards handed to the workers of an engine. A worker that dies is replaced, and its shard is linked again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Protocol

from ..errors import PelError
from ..files.atomic import remove_leftovers
from .shard import Shard, ShardReport

TRIES = 3  # of a shard: one that is found at three dead workers has killed them


class WorkerDied(PelError):
    """A worker has died: how."""


class Engine(Protocol):
    """What starts workers and asks them to link shards."""

    def start(self) -> Any:
        """A new worker."""
        ...

    def send(self, worker: Any, shard: Shard) -> Any:
        """Have a worker link a shard. Returns what stands for its answer."""
        ...

    def first_answered(self, answers: Collection[Any]) -> Any:
        """Wait for the first of `answers`."""
        ...

    def report(self, worker: Any, answer: Any) -> ShardReport:
        """What the worker has answered.

        Raises:
            WorkerDied: It has died instead.
        """
        ...

    def close(self) -> None:
        """End all workers, whatever they do."""
        ...


def link_shards(
    shards: Sequence[Shard], engine: Engine, workers: int, on_death: Callable[[Shard, str], object]
) -> Generator[tuple[Shard, ShardReport], None, None]:
    """Link shards, each by a worker.

    Args:
        shards: To link.
        engine: It is closed at the end.
        workers: How many work at a time.
        on_death: Is called with the shard that a worker had when it died, and how it died.

    Yields:
        Each shard with its report, as they are done.
    """
    waiting, tries = deque(shards), Counter[Shard]()
    idle: list[Any] = []
    busy: dict[Any, tuple[Any, Shard]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, shard = idle.pop() if idle else engine.start(), waiting.popleft()
                busy[engine.send(worker, shard)] = worker, shard
            answer = engine.first_answered(busy)
            worker, shard = busy.pop(answer)
            try:
                report = engine.report(worker, answer)
            except WorkerDied as died:
                on_death(shard, str(died))
                remove_leftovers(shard.out)
                tries[shard] += 1
                if tries[shard] < TRIES:
                    waiting.append(shard)
                else:
                    yield shard, ShardReport(error=f"{TRIES} workers have died at it, the last by {died}")
            else:
                idle.append(worker)
                yield shard, report
    finally:
        engine.close()
        for _, shard in busy.values():
            remove_leftovers(shard.out)
