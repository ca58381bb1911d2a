"""`spacy_pel.KBFromDisk.v1`: the `kb_loader` of `[initialize.components.pel_linker]`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase


class KBFromDisk:  # no dataclass: spaCy hands those to `initialize` as dicts
    """Opens a KB folder when the pipeline is initialised, not when its config is read."""

    def __init__(self, path: Path) -> None:
        """Say what to open.

        Args:
            path: The folder.
        """
        self.path = Path(path)

    def __call__(self) -> "KnowledgeBase":
        """Open it.

        Raises:
            PelError: The folder is missing, truncated or no KB.
        """
        from .knowledge_base import KnowledgeBase  # and faiss with it

        return KnowledgeBase(Path(self.path))
