"""The KB in a saved linker's folder: a copy in `kb/`, or only where it is, in `kb.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import srsly

from ..errors import PelError
from ..files.parts import Layout
from ..kb.knowledge_base import KnowledgeBase

FOLDER, REFERENCE = "kb", "kb.json"
LAYOUT = Layout(hashed=("vocab", "model"), loose=(FOLDER, REFERENCE))
_ignored: ContextVar[bool] = ContextVar("spacy_pel_kb_ignored", default=False)


@contextmanager
def kb_ignored() -> Iterator[None]:
    """Linkers that are read in this block come without their KB, whatever state it is in."""
    token = _ignored.set(True)
    try:
        yield
    finally:
        _ignored.reset(token)


def lies_in(kb: KnowledgeBase, folder: Path) -> bool:
    """Whether the KB is one of the parts of `folder`."""
    return kb.path.resolve().parent == folder.resolve()


def check_can_stay(kb: KnowledgeBase, fingerprints: Collection[str]) -> None:
    """Check that the KB can be saved where it lies, with a linker of these fingerprints.

    Raises:
        PelError: If it has indexes of other linkers, and none of this encoder.
    """
    missing = set(fingerprints) - set(kb.indexes)
    if missing and (len(kb.indexes) > len(fingerprints) or len(missing) < len(fingerprints)):
        raise PelError(
            f"{kb.path}: other linkers have indexed this KB too, or this one for another setting of `vectors`, and it "
            "has no vectors of these weights; call linker.index() before you save, or save to another folder."
        )


def drop_stale_indexes(kb: KnowledgeBase, fingerprints: Collection[str]) -> None:
    """Leave the KB without vectors where it lacks those of these fingerprints, so that what is saved can always be
    loaded."""
    if set(fingerprints) - set(kb.indexes):
        for stale in list(kb.indexes):
            kb.drop_index(stale)


def write_reference(kb: KnowledgeBase, path: Path) -> None:
    """Write to the file `path` where `kb` is, and the encoders that have indexed it."""
    srsly.write_json(path, {"path": str(kb.path.resolve()), "fingerprints": list(kb.indexes)})


def find_kb(folder: Path) -> tuple[Path | None, bool]:
    """Where the KB of the linker saved in `folder` should be (None: it has none, or it is to be ignored), and whether
    that is in the folder itself.

    Raises:
        PelError: What says so is broken.
    """
    saved = None if _ignored.get() else LAYOUT.read(folder)
    if saved is None:
        return None, False
    if file := saved.path(REFERENCE):
        return _referenced(file), False
    return saved.path(FOLDER), True


def ways_to_give_kb(folder: Path) -> str:
    """How the linker saved in `folder` is given another KB than the one that it names; empty where it names none."""
    saved = LAYOUT.read(folder)
    file = saved and saved.path(REFERENCE)
    return f'linker.set_kb(FOLDER) in Python, or {{"path": "FOLDER"}} in {file}' if file else ""


def _referenced(file: Path) -> Path:
    try:
        reference: Any = srsly.read_json(file)
        return Path(reference["path"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise PelError(f'{file}: does not say where the KB is ({error}); write {{"path": "FOLDER"}} to it.') from error
