"""The workers of one machine: processes of Python's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, NamedTuple

from .engines import WorkerDied

ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # what the environment has counts more


class Worker(NamedTuple):
    """A process, and the end of a pipe to it."""

    process: Any
    pipe: Connection


class LocalEngine:
    """Starts a process for each worker. Where there are several, each has one thread. They end with this process."""

    def __init__(self, task: Callable[[Any], Any], workers: int) -> None:
        self._task = task
        self._environment = ONE_THREAD if workers > 1 else {}
        self._context = get_context("spawn")  # a fork of a process with torch's threads may hang
        self._workers: list[Worker] = []

    def start(self) -> Worker:
        """A new process."""
        pipe, its_end = self._context.Pipe()
        process = self._context.Process(target=_work, args=(its_end, self._task), daemon=True)
        with _inherited(self._environment):
            process.start()
        its_end.close()  # so that ours ends with the process
        self._workers.append(Worker(process, pipe))
        return self._workers[-1]

    def send(self, worker: Worker, job: Any) -> Connection:
        """Have a worker do a job. The answer comes through its pipe."""
        with suppress(OSError):  # it has died idle: its answer says so
            worker.pipe.send(job)
        return worker.pipe

    def first_answered(self, answers: Collection[Connection]) -> Connection:
        """Wait for the first of `answers`."""
        return connection.wait(list(answers))[0]  # type: ignore[return-value]

    def result(self, worker: Worker, answer: Connection) -> Any:
        """What the task has returned.

        Raises:
            WorkerDied: The worker has died instead.
        """
        try:
            return answer.recv()
        except (EOFError, OSError) as error:
            self._workers.remove(worker)
            worker.process.join()
            answer.close()
            raise WorkerDied(_death(worker.process.exitcode)) from error

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()


@contextmanager
def _inherited(environment: dict[str, str]) -> Iterator[None]:
    """What a process started in this block inherits: `environment`, where it is not set, and that Ctrl-C, which a
    terminal sends to all, is left to this process."""
    new = {key: value for key, value in environment.items() if key not in os.environ}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(new)
    try:
        yield
    finally:
        for key in new:
            del os.environ[key]
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, task: Callable[[Any], Any]) -> None:
    """What a worker does."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError, EOFError):  # nobody is there any more
        while True:
            pipe.send(task(pipe.recv()))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ending with status {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name
