"""Entity records from JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..entity import Entity
from .json_fields import numbered_lines, parse_object, required, text, texts
from .rows import entities
from .source import opened


def read_jsonl(path: Path) -> Iterator[Entity]:
    """Stream the entities of a UTF-8 file (or a .gz of one) with one JSON object a line.

    `id` and `name` are required strings; `aliases`, `types`, `type_names` and `xrefs` are lists of strings,
    `definition` and `source` strings, all of them optional or null. Other keys and blank lines are skipped.

    RAISES: `PelError` naming file and line for anything else, for an id that comes twice, and for an empty file.
    """
    with opened(Path(path)) as file:
        yield from entities(path, numbered_lines(file), _parse)


def _parse(line: bytes) -> Entity:
    record = parse_object(line)
    return Entity(
        id=required(record, "id"),
        name=required(record, "name"),
        aliases=texts(record, "aliases"),
        types=texts(record, "types"),
        definition=text(record, "definition"),
        xrefs=texts(record, "xrefs"),
        source=text(record, "source"),
        type_names=texts(record, "type_names"),
    )
