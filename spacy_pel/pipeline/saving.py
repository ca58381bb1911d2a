"""A linker as a folder or as bytes: its weights, what was tuned, and its KB.

pel_linker/
  vocab/        spaCy's
  cfg           what was tuned, as JSON
  model/        the bi-encoder: see `spacy_pel.models.storage`
  kb/           the KB, or
  kb.json       where it is
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import srsly
from spacy import util
from spacy.vocab import Vocab
from thinc.api import Model

from ..errors import PelError
from ..files.packing import pack_folder, unpack_folder
from ..kb.knowledge_base import KnowledgeBase
from ..models.bi_encoder import make_bi_encoder
from ..models.storage import load, save
from ..tuning.tuned import Tuned
from .indexing import check_fingerprint
from .kb_of_pipeline import find_kb, write_kb, write_reference
from .settings import LinkSettings

KB_IN_BYTES = 200_000_000


class CanBeSaved(Protocol):
    """What is written and read: a linker."""

    name: str
    vocab: Vocab
    model: Model
    cfg: dict[str, Any]
    settings: LinkSettings
    tuned: Tuned
    kb: KnowledgeBase | None

    @property
    def fingerprint(self) -> str: ...

    def set_model(self, model: Model) -> None: ...

    def set_kb(self, kb: KnowledgeBase) -> None: ...

    def lose_kb(self, reason: str | None = None) -> None: ...


def write_linker(linker: CanBeSaved, path: Path, exclude: Iterable[str], *, with_kb: bool) -> None:
    """Write a linker to the folder `path`; of its KB only where it is, without `with_kb`."""

    def write_the_kb(path: Path) -> None:
        if linker.kb is not None and with_kb:
            write_kb(linker.kb, path.parent, linker.fingerprint)
        elif linker.kb is not None:
            write_reference(linker.kb, path.parent)

    writers = {
        "vocab": lambda p: linker.vocab.to_disk(p, exclude=("strings", "vectors")),
        "cfg": lambda p: srsly.write_json(p, learnt_state(linker)),
        "model": lambda p: save(linker.model, p),
        "kb": write_the_kb,
    }
    util.to_disk(path, writers, exclude)


def learnt_state(linker: CanBeSaved) -> dict[str, Any]:
    """What the file `cfg` holds: what was tuned, and what another version has stored there."""
    return linker.cfg | linker.tuned.to_dict()


def read_linker(linker: CanBeSaved, path: Path, exclude: Iterable[str]) -> None:
    """Read into `linker` what `write_linker` wrote, whatever its architecture.

    Raises:
        PelError: Naming what is broken, or if the KB in the folder was indexed with another encoder.
    """

    def read_state(path: Path) -> None:
        stored: Any = srsly.read_json(path)
        linker.tuned = Tuned.from_dict(stored)
        linker.cfg = {key: value for key, value in stored.items() if key not in Tuned.KEYS}

    def read_model(path: Path) -> None:
        linker.set_model(load(path, linker.model.attrs["settings"]["precision"]))

    readers: dict[str, Callable[[Path], Any]] = {
        "vocab": lambda p: linker.vocab.from_disk(p, exclude=("strings", "vectors")),
        "cfg": read_state,
        "model": read_model,
        "kb": lambda p: _read_kb(linker, p),
    }
    if not any((path / part).exists() for part in ("cfg", "model")):
        raise PelError(
            f"{path}: no {linker.name} was saved here; of a pipeline name the folder of the component, "
            f"{path / linker.name}, or read the whole with spacy.load."
        )
    util.from_disk(path, readers, exclude)


def _read_kb(linker: CanBeSaved, path: Path) -> None:
    place, own = find_kb(path.parent)
    if place is None:
        linker.lose_kb()
    elif not place.exists():
        linker.lose_kb(f"The KB of {linker.name} is not at {place} any more")
    else:
        kb = KnowledgeBase(place)
        if own:
            check_fingerprint(kb, linker.fingerprint)
        linker.set_kb(kb)


def linker_to_bytes(linker: CanBeSaved, exclude: Iterable[str]) -> bytes:
    """The folder of `write_linker` as one byte string; of a KB over 200 MB only the path."""
    small = linker.kb is not None and linker.kb.size_bytes <= KB_IN_BYTES
    with tempfile.TemporaryDirectory() as folder:
        write_linker(linker, Path(folder), exclude, with_kb=linker.settings.save_kb and small)
        return pack_folder(Path(folder))


def linker_from_bytes(linker: CanBeSaved, data: bytes, exclude: Iterable[str]) -> tempfile.TemporaryDirectory | None:
    """Read into `linker` what `linker_to_bytes` gave.

    Returns:
        The temporary folder in which its KB lies, to be kept as long as the linker is; None if there is none.
    """
    folder = tempfile.TemporaryDirectory(prefix="spacy-pel-")
    unpack_folder(data, Path(folder.name))
    read_linker(linker, Path(folder.name), exclude)
    if linker.kb is not None and Path(folder.name).resolve() in linker.kb.path.resolve().parents:
        return folder
    folder.cleanup()
    return None


def linker_from_parts(
    kind: Callable, vocab: Vocab, parts: dict[str, Any], data: bytes, kb: KnowledgeBase | None
) -> CanBeSaved:
    """A linker that was pickled: of the class `kind`, with its other arguments, its bytes and its KB."""
    linker = kind(vocab, make_bi_encoder(), **parts).from_bytes(data, exclude=("vocab", "kb"))
    if kb is not None:
        linker.set_kb(kb)
    return linker
