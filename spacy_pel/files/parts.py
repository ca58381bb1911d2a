"""A folder whose parts appear together, or not at all.

    cfg           what is stored beside the parts, the name of each part and the hashes of its files, as JSON
    .saving       while a process saves here: the names that are not in use before or after it
    model, …      the parts: files or folders

Parts are written under names that are free: `model`, or `model-1a2b3c4d` where there is a `model`. Then `cfg` is
replaced. This is the only step that a reader sees. Last, what `cfg` does not name any more is removed. Where a process
was killed, `.saving` tells the next one what it has left.

A `cfg` that names no parts is of an earlier version. Its parts have their plain names, and no hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

from ..errors import PelError
from .atomic import write_atomically
from .folders import sync, sync_all
from .hashes import Hash, check_hash, hash_of
from .leftovers import alone, announce, clean, is_plain

STATE, KEY = "cfg", "saved"
KEYS = Hash.__annotations__.keys()
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Part(TypedDict):
    """What `cfg` says of a part.

    Attributes:
        name: In the folder.
        files: The hashes of its files, by their paths in the part; None where they may change.
    """

    name: str
    files: dict[str, Hash] | None


@dataclass(frozen=True)
class Saved:
    """What is saved in a folder.

    Attributes:
        folder: The folder.
        state: What is stored beside the parts.
        parts: By what they are.
        notes: What the writer has noted about the parts.
        has_hashes: Whether the files can be checked; not those of earlier versions.
    """

    folder: Path
    state: dict[str, Any]
    parts: dict[str, Part]
    notes: dict[str, Any] = field(default_factory=dict)
    has_hashes: bool = True

    def path(self, part: str) -> Path | None:
        """Where a part is; None if there is none."""
        return self.folder / self.parts[part]["name"] if part in self.parts else None

    def check(self, part: str) -> None:
        """Check the files of a part, if there is one and it has hashes.

        Raises:
            PelError: Naming the file that is missing, has changed or is new.
        """
        if (path := self.path(part)) is None or (files := self.parts[part]["files"]) is None:
            return
        for name, expected in files.items():
            check_hash(path / name, expected)
        if strange := sorted(_files(path).keys() - files.keys()):
            raise PelError(f"{path / strange[0]}: was not saved with the other files here; remove it.")


@dataclass(frozen=True)
class Layout:
    """What a folder may hold.

    Attributes:
        hashed: The parts that stay as they were written.
        loose: The parts that change on their own.
    """

    hashed: tuple[str, ...]
    loose: tuple[str, ...] = ()

    def read(self, folder: Path) -> Saved | None:
        """What is saved in `folder`; None if nothing is, or not to its end.

        Raises:
            PelError: `cfg` is broken.
        """
        if not (folder / STATE).is_file():
            return None
        stored = _read(folder / STATE)
        block = stored.pop(KEY, None)
        if block is None:
            here = {part: Part(name=part, files=None) for part in self.hashed + self.loose if (folder / part).exists()}
            return Saved(folder, stored, here, has_hashes=False)
        return Saved(folder, stored, block["parts"], block["notes"])

    def read_before_writing(self, folder: Path) -> Saved | None:
        """`read`, and None also where `cfg` is broken, so that it can be written again."""
        try:
            return self.read(folder)
        except PelError:
            return None

    def write(
        self,
        folder: Path,
        state: Mapping[str, Any],
        writers: Mapping[str, Callable[[Path], object]],
        *,
        kept: Mapping[str, str] = NOTHING,
        notes: Mapping[str, Any] = NOTHING,
    ) -> None:
        """Write parts and `state`, in place of all that is saved in `folder`. Killed or failing at any moment, this
        leaves what was there before, or all that is new.

        Args:
            folder: It is made if it is not there.
            state: Goes to `cfg`.
            writers: Each writes a part to the path that it is given.
            kept: The parts that stay as they are, by their names in the folder.
            notes: Anything about the parts.

        Raises:
            PelError: Another process saves here, or `cfg` cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            saved = self.read_before_writing(folder)
            before = saved.parts if saved else {}
            old = {part["name"] for part in before.values()} | set(kept.values())
            clean(folder, old)
            new = {part: _free_name(folder, part) for part in writers}
            announce(folder, old | set(new.values()))
            try:
                for part, writer in writers.items():
                    writer(folder / new[part])
                    sync_all(folder / new[part])
                parts = {part: self._record(folder, part, name, before) for part, name in (new | dict(kept)).items()}
                _write(folder, state, {"parts": parts, "notes": dict(notes)})
            except BaseException:
                now = self.read_before_writing(folder)  # what failed may have come behind the writing of `cfg`
                named = old if now is None or not now.has_hashes else {part["name"] for part in now.parts.values()}
                clean(folder, named | set(kept.values()))
                raise
            clean(folder, {part["name"] for part in parts.values()})

    def _record(self, folder: Path, part: str, name: str, before: Mapping[str, Part]) -> Part:
        """What `cfg` says of a part; the hashes of one that was there already are those of when it was written."""
        if part in before and before[part]["name"] == name and before[part]["files"] is not None:
            return before[part]
        hashes = {file: hash_of(path) for file, path in _files(folder / name).items()} if part in self.hashed else None
        return Part(name=name, files=hashes)


def read_state(folder: Path) -> dict[str, Any]:
    """The state in the `cfg` of `folder`; empty if there is none.

    Raises:
        PelError: `cfg` is broken.
    """
    return _parted(folder)[0]


def write_state(folder: Path, state: Mapping[str, Any], *, before: Mapping[str, Any] | None = None) -> None:
    """Write another `state` into the `cfg` of `folder`, in place of the one `before` (None: whatever is there), and
    leave the parts as they are.

    Raises:
        PelError: `cfg` is broken, cannot be written or holds another state by now, or another process saves here.
    """
    with alone(folder):
        there, block = _parted(folder)
        if before is not None and there != before:
            raise PelError(
                f"{folder / STATE}: another command has changed it meanwhile; nothing is written, so run this again."
            )
        _write(folder, state, block)


def _parted(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The state in the `cfg` of `folder`, and what it says of parts; nothing where there is no `cfg`."""
    stored = _read(folder / STATE) if (folder / STATE).exists() else {}
    return {key: value for key, value in stored.items() if key != KEY}, stored.get(KEY)


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise PelError(f"{path}: cannot be read ({error}); copy the folder again.") from error
    if not isinstance(stored, dict):
        raise PelError(f"{path}: holds no JSON object; copy the folder again.")
    block = stored.get(KEY)
    if block is None:
        return stored
    if not isinstance(block, dict) or block.pop("sha256", None) != _digest(stored):
        raise PelError(
            f"{path}: has changed since it was saved; copy the folder again. Settings are changed in config.cfg."
        )
    if not _is_block(block):
        raise PelError(f"{path}: does not say what is saved in its folder; copy the folder again.")
    return stored


def _is_block(block: dict[str, Any]) -> bool:
    """Whether `block` is one that we write: what others have made may name files elsewhere."""
    parts, notes = block.get("parts"), block.get("notes")
    if not isinstance(parts, dict) or not isinstance(notes, dict):
        return False
    return all(isinstance(part, dict) and is_plain(part.get("name")) and _has_hashes(part) for part in parts.values())


def _has_hashes(part: dict[str, Any]) -> bool:
    files = part.get("files")
    if files is None:
        return True
    return isinstance(files, dict) and all(isinstance(file, dict) and file.keys() == KEYS for file in files.values())


def _write(folder: Path, state: Mapping[str, Any], block: Mapping[str, Any] | None) -> None:
    stored = dict(state)
    if block is not None:
        stored[KEY] = dict(block)
        stored[KEY]["sha256"] = _digest(stored)
    write_atomically(folder / STATE, json.dumps(stored, indent=2, allow_nan=False).encode())
    sync(folder)


def _digest(stored: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def _files(path: Path) -> dict[str, Path]:
    """The files of a part, by their paths in it; "." for a part that is a file. Hidden ones are not ours."""
    if path.is_file():
        return {".": path}
    found = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    return {name: file for name, file in sorted(found.items()) if not file.name.startswith(".")}


def _free_name(folder: Path, part: str) -> str:
    return f"{part}-{secrets.token_hex(4)}" if os.path.lexists(folder / part) else part
