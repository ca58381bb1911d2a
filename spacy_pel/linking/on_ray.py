"""The workers of a Ray cluster: actors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..errors import PelError
from .engines import WorkerDied
from .shard import LinkShard, Shard, ShardReport


class RayEngine:
    """Starts an actor with one CPU, and so one thread, for each worker: of the cluster that `ray.init()` finds, or of
    this machine. All machines must see the shards and the pipeline under the same paths.

    Raises:
        PelError: Ray is not installed.
    """

    def __init__(self, task: LinkShard) -> None:
        try:
            import ray
        except ImportError as error:
            raise PelError('--engine ray needs the package ray; run `pip install "spacy-pel[ray]"`.') from error
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._ray = ray
        self._task = ray.put(task)
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(Actor)
        self._workers: list[Any] = []

    def start(self) -> Any:
        """A new actor."""
        self._workers.append(self._actor.remote(self._task))
        return self._workers[-1]

    def send(self, worker: Any, shard: Shard) -> Any:
        """Have a worker link a shard. Returns Ray's reference to the report."""
        return worker.link.remote(shard)

    def first_answered(self, answers: Collection[Any]) -> Any:
        """Wait for the first of `answers`."""
        return self._ray.wait(list(answers), num_returns=1)[0][0]

    def report(self, worker: Any, answer: Any) -> ShardReport:
        """What the worker has answered.

        Raises:
            WorkerDied: It has died instead.
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
    """Links shards, one after the other."""

    def __init__(self, task: LinkShard) -> None:
        self._task = task

    def link(self, shard: Shard) -> ShardReport:
        """Link a shard."""
        return self._task(shard)
