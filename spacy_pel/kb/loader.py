"""`spacy_pel.KBFromDisk.v1`: the `kb_loader` of `[initialize.components.pel_linker]`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase


@dataclass(frozen=True)
class KBFromDisk:
    """Opens a KB folder when the pipeline is initialised, not when its config is read.

    Attributes:
        path: The folder.
    """

    path: Path

    def __call__(self) -> KnowledgeBase:
        """Open it.

        Raises:
            PelError: The folder is missing, truncated or no KB.
        """
        from .knowledge_base import KnowledgeBase  # and faiss with it

        return KnowledgeBase(Path(self.path))
