"""What `pel_linker` writes and reads: its weights, its learnt state and its KB, as a folder or as bytes.

Imported by every `spacy.blank`, like the linker: torch, transformers and faiss load when a method wants them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import srsly
from spacy import util
from spacy.vocab import Vocab

from ..errors import PelError
from ..files.packing import pack_folder, unpack_folder
from .with_kb import WithKB

if TYPE_CHECKING:
    from typing_extensions import Self

KB_IN_BYTES = 200_000_000


class OnDisk(WithKB):
    """The part of `PelLinker` that reads and writes it."""

    vocab: Vocab
    save_kb: bool

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the bi-encoder, the learnt state (`cfg`) and the KB, or where it is, to a folder."""
        self._write(Path(path), exclude, with_kb=self.save_kb)

    def _write(self, path: Path, exclude: Iterable[str], with_kb: bool) -> None:
        from ..models.bi_encoder import save
        from .kb_of_pipeline import write_kb, write_reference

        def write_the_kb(path: Path) -> None:
            if self.kb is not None and with_kb:
                write_kb(self.kb, path.parent, self.fingerprint)
            elif self.kb is not None:
                write_reference(self.kb, path.parent)

        writers = {
            "vocab": lambda p: self.vocab.to_disk(p, exclude=("strings", "vectors")),
            "cfg": lambda p: srsly.write_json(p, self.cfg),
            "model": lambda p: save(self.model, p),
            "kb": write_the_kb,
        }
        util.to_disk(path, writers, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Read a linker that `to_disk` wrote, whatever its architecture. RAISES: PelError naming what is broken, or if
        its KB was indexed with another encoder."""
        readers: dict[str, Callable[[Path], Any]] = {
            "vocab": lambda p: self.vocab.from_disk(p, exclude=("strings", "vectors")),
            "cfg": lambda p: setattr(self, "cfg", srsly.read_json(p)),
            "model": self._read_model,
            "kb": self._read_kb,
        }
        if not any((Path(path) / part).exists() for part in ("cfg", "model")):
            raise PelError(
                f"{path}: no {self.name} was saved here; of a pipeline name the folder of the component, "
                f"{Path(path) / self.name}, or read the whole with spacy.load."
            )
        util.from_disk(Path(path), readers, exclude)
        return self

    def _read_model(self, path: Path) -> None:
        from ..models.bi_encoder import load

        self.model = load(path, self.model.attrs["settings"]["precision"])
        self._fingerprint = self._trainer = None

    def _read_kb(self, path: Path) -> None:
        from ..kb.knowledge_base import KnowledgeBase
        from .kb_of_pipeline import find_kb

        place, own = find_kb(path.parent)
        self.kb = self._kb_lost = self._trainer = None
        if place is None:
            return
        if not place.exists():
            self._kb_lost = f"The KB of {self.name} is not at {place} any more"
            return
        kb = KnowledgeBase(place)
        if own and kb.indexes:
            self._check_fingerprint(kb)
        self.set_kb(kb)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The folder of `to_disk` as one byte string; of a KB over 200 MB only the path."""
        small = self.kb is not None and self.kb.size_bytes <= KB_IN_BYTES
        with tempfile.TemporaryDirectory() as folder:
            self._write(Path(folder), exclude, with_kb=self.save_kb and small)
            return pack_folder(Path(folder))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Read what `to_bytes` wrote. A KB in it lives in a temporary folder as long as the linker does."""
        folder = tempfile.TemporaryDirectory(prefix="spacy-pel-")
        unpack_folder(data, Path(folder.name))
        self.from_disk(folder.name, exclude=exclude)
        if self.kb is not None and Path(folder.name).resolve() in self.kb.path.resolve().parents:
            self._folder = folder
        else:
            folder.cleanup()
        return self
