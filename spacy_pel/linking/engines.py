"""Jobs handed to the workers of an engine. A worker that dies is replaced, and its job is done again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from typing import Any, Protocol, TypeVar

from ..errors import PelError

TRIES = 3  # of a job: one that is found at three dead workers has killed them
Job = TypeVar("Job")


class WorkerDied(PelError):
    """A worker has died: how."""


class Engine(Protocol):
    """What starts workers and hands them jobs. Each worker has the engine's task: a callable that does a job, returns
    what came of it, and raises nothing."""

    def start(self) -> Any:
        """A new worker."""
        ...

    def send(self, worker: Any, job: Any) -> Any:
        """Have a worker do a job. Returns what stands for its answer."""
        ...

    def first_answered(self, answers: Collection[Any]) -> Any:
        """Wait for the first of `answers`."""
        ...

    def result(self, worker: Any, answer: Any) -> Any:
        """What the task has returned.

        Raises:
            WorkerDied: The worker has died instead.
        """
        ...

    def close(self) -> None:
        """End all workers, whatever they do."""
        ...


def work_off(
    jobs: Iterable[Job], engine: Engine, workers: int, on_death: Callable[[Job, str], object]
) -> Generator[tuple[Job, Any], None, None]:
    """Have jobs done, each by a worker.

    Args:
        jobs: Asked for one by one, as workers get free.
        engine: It is closed at the end.
        workers: How many work at a time.
        on_death: Is called with the job that a worker had when it died, and how it died.

    Yields:
        Each job with what came of it, as they are done; with a `WorkerDied` where `TRIES` workers have died at it.
    """
    new, again = iter(jobs), deque[tuple[Job, int]]()
    idle: list[Any] = []
    busy: dict[Any, tuple[Any, Job, int]] = {}
    try:
        while True:
            while len(busy) < workers and (job := next(((job, 0) for job in new), None) or (again and again.popleft())):
                worker = idle.pop() if idle else engine.start()
                busy[engine.send(worker, job[0])] = worker, *job
            if not busy:
                return
            answer = engine.first_answered(busy)
            worker, done, deaths = busy.pop(answer)
            try:
                result = engine.result(worker, answer)
            except WorkerDied as died:
                on_death(done, str(died))
                if deaths + 1 < TRIES:
                    again.append((done, deaths + 1))
                else:
                    yield done, WorkerDied(f"{TRIES} workers have died at it, the last by {died}")
            else:
                idle.append(worker)
                yield done, result
    finally:
        engine.close()
