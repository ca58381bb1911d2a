"""The engines that commands can hand their work to."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..linking.engines import Engine


class EngineName(str, Enum):
    """Who runs the workers."""

    local = "local"
    ray = "ray"


def engine_named(name: str, task: Callable[[Any], Any], workers: int) -> Engine:
    """An engine whose workers run `task`.

    Args:
        name: "local" or "ray".
        task: See `Engine`.
        workers: How many will work at a time.

    Raises:
        PelError: Ray is not installed, or too small.
    """
    if name == EngineName.ray.value:
        from ..linking.on_ray import RayEngine

        return RayEngine(task, workers)
    from ..linking.local import LocalEngine

    return LocalEngine(task, workers)
