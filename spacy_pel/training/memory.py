"""Memory between the steps of a training on CPUs."""

from __future__ import annotations

import ctypes
import sys

KEEP = {-1: 2**31 - 1, -2: 256 * 2**20, -4: 0}  # M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_MAX of glibc's malloc.h


def keep_freed_memory() -> bool:
    """Make glibc keep what the process frees, up to its exit, for what it asks for next: a step frees gigabytes of
    activations, and to have the kernel clear them anew takes up to a third of the next.
    RETURNS: whether it does; False where the C library is another."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) for option, value in KEEP.items())
