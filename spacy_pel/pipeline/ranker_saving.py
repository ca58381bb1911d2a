"""A ranker as a folder or as bytes: its weights, and what was tuned.

pel_ranker/
  cfg           what was tuned, and the names and hashes of the rest, as JSON: see `spacy_pel.files.parts`
  vocab/        spaCy's
  model/        the cross-encoder: see `spacy_pel.models.cross_storage`
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spacy.vocab import Vocab

from ..files.packing import pack_folder, unpack_folder
from ..files.parts import Layout
from ..models.cross_encoder import make_cross_encoder
from ..models.cross_storage import load, save
from ..models.encoder import has_encoder
from ..tuning.ranking import RankTuned
from .component_files import left_out, read_component, write_component

LAYOUT = Layout(hashed=("vocab", "model"))


def write_ranker(ranker: Any, path: Path, exclude: Iterable[str]) -> None:
    """Write a ranker to the folder `path`, in place of all that is saved there. What is excluded stays as it is.

    Raises:
        PelError: The ranker has no weights.
    """
    write_component(ranker, path, exclude, LAYOUT, save, ranker.tuned.to_dict())


def read_ranker(ranker: Any, path: Path, exclude: Iterable[str]) -> None:
    """Read into `ranker` what `write_ranker` wrote, whatever its architecture.

    Raises:
        PelError: Naming what is broken.
    """

    def read_state(state: dict[str, Any]) -> None:
        ranker.tuned = RankTuned.from_dict(state)

    read_component(ranker, path, exclude, LAYOUT, load, read_state)


def ranker_to_bytes(ranker: Any, exclude: Iterable[str]) -> bytes:
    """The folder of `write_ranker` as one byte string."""
    with tempfile.TemporaryDirectory() as folder:
        write_ranker(ranker, Path(folder), exclude)
        return pack_folder(Path(folder))


def ranker_from_bytes(ranker: Any, data: bytes, exclude: Iterable[str]) -> None:
    """Read into `ranker` what `ranker_to_bytes` gave. What is not in there stays.

    Raises:
        PelError: As for `read_ranker`, or if `data` is something else.
    """
    with tempfile.TemporaryDirectory() as folder:
        unpack_folder(data, Path(folder))
        read_ranker(ranker, Path(folder), {*exclude, *left_out(Path(folder), LAYOUT)})


def pickled(ranker: Any) -> tuple[Callable, tuple]:
    """What pickles a ranker."""
    options = {"adversarial": ranker.adversarial, "settings": ranker.settings, "scorer": ranker.scorer}
    data = ranker.to_bytes(exclude=("vocab",)) if has_encoder(ranker.model) else None
    settings = ranker.model.attrs["settings"]
    return ranker_from_parts, (type(ranker), ranker.vocab, ranker.name, settings, options, data)


def ranker_from_parts(
    kind: Callable, vocab: Vocab, name: str, settings: dict[str, Any], options: dict[str, Any], data: bytes | None
) -> Any:
    """A ranker that was pickled: of the class `kind`, with the settings of its model, its arguments and its bytes."""
    ranker = kind(vocab, make_cross_encoder(**settings), name, **options)
    if data is not None:
        ranker.from_bytes(data, exclude=("vocab",))
    return ranker
