"""`spacy_pel.keep_freed_memory.v1`, for `[initialize.before_init]`: memory between the steps of a training on CPUs."""

from __future__ import annotations

import ctypes
import sys

from spacy.language import Language
from spacy.util import logger

KEEP = {-1: 2**31 - 1, -2: 256 * 2**20, -4: 0}  # M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_MAX of glibc's malloc.h


class KeepFreedMemory:
    """Sets malloc for the whole process: what it frees stays with it, for what it asks for next.

    A step of training frees gigabytes of activations, and to have the kernel clear them anew takes up to a third of the
    next. The process keeps that memory up to its exit. Only glibc has these options: elsewhere nothing is changed.
    """

    def __call__(self, nlp: Language) -> Language:
        """Set malloc, log what was done, and return `nlp`."""
        if keep_freed_memory():
            logger.info("malloc keeps freed memory for the next step (spacy_pel.keep_freed_memory.v1)")
        else:
            logger.info("malloc is left as it is: spacy_pel.keep_freed_memory.v1 works with glibc only")
        return nlp


def keep_freed_memory() -> bool:
    """Set malloc as `KeepFreedMemory` says. Return whether it is set; False where the C library is another."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) for option, value in KEEP.items())
