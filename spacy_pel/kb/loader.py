"""`spacy_pel.KBFromDisk.v1`: the `kb_loader` of `[initialize.components.pel_linker]`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase


def make_kb_from_disk(path: Path) -> Callable:
    """Open the KB folder at `path` when the pipeline is initialised, not when its config is read.

    Raises:
        PelError: On the call, where the folder is missing, truncated or no KB.
    """
    return partial(_open, path)


def _open(path: Path) -> "KnowledgeBase":
    from .knowledge_base import KnowledgeBase

    return KnowledgeBase(path)
