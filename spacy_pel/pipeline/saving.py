"""A linker as a folder or as bytes: its weights, what was tuned, and its KB.

pel_linker/
  cfg           what was tuned, and the names and hashes of the rest, as JSON: see `spacy_pel.files.parts`
  vocab/        spaCy's
  model/        the bi-encoder: see `spacy_pel.models.storage`
  kb/           the KB, or
  kb.json       where it is

They appear together: a linker that is saved over another has other names for its parts until `cfg` is replaced. The KB
stays where it is if it lies in the folder already.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

from spacy.util import raise_error
from spacy.vocab import Vocab
from thinc.api import Model

from ..files.packing import pack_folder, unpack_folder
from ..files.temporary import TemporaryFolder
from ..kb.knowledge_base import KnowledgeBase
from ..models.encoder import has_encoder
from ..models.listener import keep_lenders
from ..models.storage import load, save, without_weights
from ..tuning.tuned import Tuned
from .component_files import left_out, read_component, write_component
from .indexing import check_fingerprints
from .kb_of_pipeline import (
    FOLDER,
    LAYOUT,
    REFERENCE,
    check_can_stay,
    drop_stale_indexes,
    find_kb,
    lies_in,
    write_reference,
)
from .notices import warn_of_other_architecture, warn_of_removed_kb
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
    def fingerprints(self) -> dict[str, str]: ...

    def set_model(self, model: Model) -> None: ...

    def set_kb(self, kb: KnowledgeBase) -> None: ...

    def lose_kb(self, reason: str | None = None) -> None: ...


def write_linker(linker: CanBeSaved, path: Path, exclude: Iterable[str], *, with_kb: bool) -> None:
    """Write a linker to the folder `path`, in place of all that is saved there; of its KB only where it is, without
    `with_kb`. What is excluded stays as it is. Where the KB lay in the folder and has been removed, a warning says so.

    Raises:
        PelError: The linker has no weights, or its KB in the folder has only indexes of other linkers.
    """
    excluded, kb = set(exclude), linker.kb
    writers: dict[str, Callable[[Path], object]] = {}
    kept: dict[str, str] = {}
    stays = kb is not None and FOLDER not in excluded and lies_in(kb, path)
    if kb is not None and stays and not kb.path.exists():
        warn_of_removed_kb(linker.name, kb.path)
        kb, stays = None, False
    if kb is not None and stays:
        check_can_stay(kb, linker.fingerprints.values())
        kept[FOLDER] = kb.path.name
    elif kb is not None and with_kb:
        fingerprints = set(linker.fingerprints.values())
        complete = fingerprints if fingerprints <= set(kb.indexes) else ()
        writers[FOLDER] = lambda p: kb.copy_to(p, indexes=complete)
    elif kb is not None:
        writers[REFERENCE] = lambda p: write_reference(kb, p)
    write_component(linker, path, excluded, LAYOUT, save, learnt_state(linker), writers=writers, kept=kept)
    if kb is not None and stays:
        drop_stale_indexes(kb, linker.fingerprints.values())


def learnt_state(linker: CanBeSaved) -> dict[str, Any]:
    """What the file `cfg` holds of a linker: what was tuned, and what another version has stored there."""
    return linker.cfg | linker.tuned.to_dict()


def read_linker(linker: CanBeSaved, path: Path, exclude: Iterable[str]) -> None:
    """Read into `linker` what `write_linker` wrote, whatever its architecture.

    Raises:
        PelError: Naming what is broken, or if the KB in the folder was indexed with another encoder. The linker stays
            as it was.
    """
    excluded = set(exclude)

    def load_model(folder: Path, precision: str) -> Model:
        model = load(folder, precision)
        linker.settings.check_threshold(model.attrs["settings"]["similarity"])
        warn_of_other_architecture(linker, model, path)
        keep_lenders(model, linker.model)
        return model

    def read_state(state: dict[str, Any]) -> None:
        linker.tuned = Tuned.from_dict(state)
        linker.cfg = {key: value for key, value in state.items() if key not in Tuned.KEYS}

    with _unchanged_on_error(linker):
        read_component(linker, path, excluded, LAYOUT, load_model, read_state)
        if FOLDER not in excluded:
            _read_kb(linker, path)


@contextmanager
def _unchanged_on_error(linker: CanBeSaved) -> Iterator[None]:
    """Give `linker` all its attributes again where the block raises; those of spaCy's class are not among `vars`."""
    model, cfg, own = linker.model, linker.cfg, dict(vars(linker))
    try:
        yield
    except BaseException:
        linker.model, linker.cfg = model, cfg
        vars(linker).update(own)
        raise


def _read_kb(linker: CanBeSaved, path: Path) -> None:
    place, own = find_kb(path)
    if place is None:
        linker.lose_kb()
    elif not place.exists():
        linker.lose_kb(f"The KB of {linker.name} is not at {place} any more")
    else:
        kb = KnowledgeBase(place)
        if own:
            check_fingerprints(kb, linker.fingerprints)
        linker.set_kb(kb)


def linker_to_bytes(linker: CanBeSaved, exclude: Iterable[str]) -> bytes:
    """The folder of `write_linker` as one byte string; of a KB over 200 MB only the path."""
    excluded, kb = set(exclude), linker.kb
    wanted = linker.settings.save_kb and FOLDER not in excluded
    with_kb = wanted and kb is not None and kb.size_bytes <= KB_IN_BYTES
    with tempfile.TemporaryDirectory() as folder:
        write_linker(linker, Path(folder), excluded, with_kb=with_kb)
        return pack_folder(Path(folder))


def linker_from_bytes(linker: CanBeSaved, data: bytes, exclude: Iterable[str]) -> None:
    """Read into `linker` what `linker_to_bytes` gave. A KB in there has its folder with it. What is not in there stays.

    Raises:
        PelError: As for `read_linker`, or if `data` is something else.
    """
    folder = TemporaryFolder()
    unpack_folder(data, folder.path)
    read_linker(linker, folder.path, {*exclude, *left_out(folder.path, LAYOUT)})
    if linker.kb is not None and lies_in(linker.kb, folder.path):
        linker.kb.lives_in = folder


def pickled(linker: Any) -> tuple[Callable, tuple]:
    """What pickles a linker. A KB in a temporary folder is in the bytes; another is a path."""
    kb = linker.kb
    goes_along = kb is not None and kb.lives_in is not None
    excluded = ("vocab",) if goes_along else ("vocab", FOLDER)
    data = linker.to_bytes(exclude=excluded) if has_encoder(linker.model) else None
    parts = {"name": linker.name, "objective": linker.objective, "settings": linker.settings, "scorer": linker.scorer}
    own = None if goes_along else kb, goes_along, linker.model.attrs["settings"]
    return linker_from_parts, (type(linker), linker.vocab, parts, data, *own)


def kept_handler(component: Any) -> Callable:
    """The error handler of a component, to be pickled with it; the default one where it cannot be, as a lambda."""
    handler = component.get_error_handler()
    try:
        pickle.dumps(handler)
    except (pickle.PicklingError, AttributeError, TypeError):
        return raise_error
    return handler


def copied(component: Any, memo: dict[int, Any]) -> Any:
    """A deep copy of a component, as its pickle makes it, with its own error handler even where none can be pickled."""
    make, parts, state = component.__reduce__()
    memo[id(component)] = copy = make(*deepcopy(parts, memo))
    copy.__setstate__(deepcopy(state, memo))
    copy.set_error_handler(deepcopy(component.get_error_handler(), memo))
    return copy


def linker_from_parts(
    kind: Callable,
    vocab: Vocab,
    parts: dict[str, Any],
    data: bytes | None,
    kb: KnowledgeBase | None,
    kb_in_data: bool,
    settings: dict[str, Any],
) -> CanBeSaved:
    """A linker that was pickled: of the class `kind`, with its other arguments, its bytes unless it had no encoder, its
    KB, and the settings of its model."""
    linker = kind(vocab, without_weights(settings), **parts)
    if data is not None:
        linker.from_bytes(data, exclude=("vocab",) if kb_in_data else ("vocab", FOLDER))
    if kb is not None:
        linker.set_kb(kb)
    return linker
