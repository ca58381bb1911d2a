"""The workers of a Ray cluster: actors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..errors import PelError
from .engines import WorkerDied


class RayEngine:
    """Starts an actor with one CPU, and so one thread, for each worker: of the cluster that `ray.init()` finds, or of
    this machine. All machines must see the files that the task names under the same paths.

    Raises:
        PelError: Ray is not installed, or has fewer CPUs than workers are wanted.
    """

    def __init__(self, task: Callable[[Any], Any], workers: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise PelError('--engine ray needs the package ray; run `pip install "spacy-pel[ray]"`.') from error
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < workers:  # the others would wait for a CPU for ever
            raise PelError(f"--processes {workers}: Ray has {cpus} CPUs, one for each; ask for fewer, or add machines.")
        self._ray = ray
        self._task = ray.put(task)
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(Actor)
        self._workers: list[Any] = []

    def start(self) -> Any:
        """A new actor."""
        self._workers.append(self._actor.remote(self._task))
        return self._workers[-1]

    def send(self, worker: Any, job: Any) -> Any:
        """Have a worker do a job. Returns Ray's reference to the answer."""
        return worker.do.remote(job)

    def first_answered(self, answers: Collection[Any]) -> Any:
        """Wait for the first of `answers`."""
        return self._ray.wait(list(answers), num_returns=1)[0][0]

    def result(self, worker: Any, answer: Any) -> Any:
        """What the task has returned.

        Raises:
            WorkerDied: The worker has died instead.
        """
        try:
            return self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._workers.remove(worker)
            self._ray.kill(worker)
            raise WorkerDied(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            self._ray.kill(worker)


class Actor:
    """Does jobs, one after the other."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def do(self, job: Any) -> Any:
        """Do a job."""
        return self._task(job)
