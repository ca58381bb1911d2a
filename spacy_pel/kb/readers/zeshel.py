"""Entity records from the documents of ZESHEL: a file of JSON lines for each world."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import PelError
from ...files.json_lines import numbered_lines, parse_object, required
from ...files.lines import unpacked_suffix
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import check_once

SHAPE = '{"document_id": …, "title": …, "text": …}'


def read_zeshel(path: Path, *, types: Sequence[str] = (), strict: bool = False) -> Records:
    """Stream the documents of a world, `lego.json`, or of all worlds in a folder, plain or .gz.

    A document is an object a line with `document_id`, `title` and `text`, which begins with the title. It becomes an
    entity: the title is the name, the text without the title the definition, and the world the type. A line that holds
    anything else, or an id a second time, is left out with a warning.

    Args:
        path: The file or folder.
        types: The worlds to take; all by default.
        strict: Such a line is an error.

    Raises:
        PelError: More than one line in a hundred is left out (with the first of them), a world is not there, or there
            is no document.
    """
    skipped: Counter[str] = Counter()
    return Records(_stream(_files(Path(path), types), skipped, strict), skipped)


def worlds_in(folder: Path) -> dict[str, Path]:
    """The files of the worlds in a folder, by the names of the worlds, in their order."""
    return {_world(path): path for path in sorted(folder.iterdir()) if unpacked_suffix(path) == ".json"}


def without_title(text: str, title: str) -> str:
    """The words of `text` behind its title, whose words may be parted otherwise there; all where it has none."""
    words, wanted = text.split(), "".join(title.split())
    taken = ""
    for number, word in enumerate(words, 1):
        taken += word
        if len(taken) >= len(wanted):
            return " ".join(words[number:] if taken == wanted else words)
    return " ".join(words)


def _files(path: Path, worlds: Sequence[str]) -> list[Path]:
    found = worlds_in(path) if path.is_dir() else {_world(path): path}
    if not found:
        raise PelError(f"{path}: holds no world.json; put the files of ZESHEL's documents/ there.")
    if missing := [world for world in worlds if world not in found]:
        raise PelError(f'--types: {path} has no world "{missing[0]}"; it has {", ".join(found)}.')
    return [found[world] for world in dict.fromkeys(worlds)] or list(found.values())


def _world(path: Path) -> str:
    return re.sub(r"(\.json)?(\.gz)?$", "", path.name, count=1, flags=re.IGNORECASE)


def _stream(files: Sequence[Path], skipped: Counter[str], strict: bool) -> Iterator[Entity]:
    places: dict[str, str] = {}
    for file in files:
        faults = Faults(file, skipped, strict=strict)

        def unique(number: int, line: bytes, file: Path = file) -> Entity:
            entity = _entity(line, _world(file))
            check_once(places, entity.id, f"{file}:{number}", "document")
            return entity

        yield from faults.parsed(numbered_lines(file), unique)
        if not faults.good:
            raise PelError(f"{file}: holds no documents; write {SHAPE}, an object a line.")


def _entity(line: bytes, world: str) -> Entity:
    record = parse_object(line, SHAPE)
    title, text = required(record, "title", f"write {SHAPE}"), required(record, "text", f"write {SHAPE}")
    id_ = required(record, "document_id", f"write {SHAPE}")
    return Entity(id_, title, types=(world,), definition=without_title(text, title))
