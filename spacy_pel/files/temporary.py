"""Folders that go with what they were made for."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class TemporaryFolder:
    """A folder that is removed with this object, by the process that made it: its forked children leave it there.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="spacy-pel-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
