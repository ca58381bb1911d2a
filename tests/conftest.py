"""Fast tests first, so that what is broken shows early; of the slow ones the longest first. Two processes share the
cores."""

from __future__ import annotations

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # before anything imports torch; processes that tests start inherit it
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("OMP_NUM_THREADS", str(share))


LONGEST = "test_quickstart"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (item.get_closest_marker("slow") is not None, item.name != LONGEST))
