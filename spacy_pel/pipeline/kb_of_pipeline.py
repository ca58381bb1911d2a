"""The KB in a saved linker's folder: a copy in `kb/`, or only where it is, in `kb.json`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import srsly

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase

FOLDER, REFERENCE = "kb", "kb.json"
_ignored: ContextVar[bool] = ContextVar("spacy_pel_kb_ignored", default=False)


@contextmanager
def kb_ignored() -> Iterator[None]:
    """Linkers that are read in this block come without their KB, whatever state it is in."""
    token = _ignored.set(True)
    try:
        yield
    finally:
        _ignored.reset(token)


def write_kb(kb: KnowledgeBase, folder: Path, fingerprint: str) -> None:
    """Copy `kb` to `folder`, with the vectors of the encoder named by `fingerprint` alone, so that what is saved can
    always be loaded. Where `kb` lies in `folder` already, it stays, without vectors of older weights.

    Raises:
        PelError: If `kb` lies in `folder` and has indexes of other linkers, and none of this encoder.
    """
    path, fits = folder / FOLDER, fingerprint in kb.indexes
    if not (path.exists() and path.samefile(kb.path)):
        kb.copy_to(path, indexes=[fingerprint])
    elif not fits and len(kb.indexes) > 1:
        raise PelError(
            f"{path}: other linkers have indexed this KB too, and it has no vectors of these weights; call "
            "linker.index() before you save, or save to another folder."
        )
    elif not fits:
        for stale in list(kb.indexes):
            kb.drop_index(stale)
    (folder / REFERENCE).unlink(missing_ok=True)


def write_reference(kb: KnowledgeBase, folder: Path) -> None:
    """Write where `kb` is, and the encoders that have indexed it."""
    srsly.write_json(folder / REFERENCE, {"path": str(kb.path.resolve()), "fingerprints": list(kb.indexes)})


def find_kb(folder: Path) -> tuple[Path | None, bool]:
    """Where the KB of the linker saved in `folder` should be (None: it has none, or it is to be ignored), and whether
    that is in the folder itself."""
    if _ignored.get():
        return None, False
    if (folder / REFERENCE).exists():
        reference: Any = srsly.read_json(folder / REFERENCE)
        return Path(reference["path"]), False
    return (folder / FOLDER, True) if (folder / FOLDER).exists() else (None, False)
