"""Entity records from JSON lines: one object a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path

from ...files.json_lines import numbered_lines, parse_object, required, text, texts
from ...files.lines import opened
from ..entity import Entity
from .records import Records
from .rows import entities

FIELDS = frozenset(field.name for field in fields(Entity))


def read_jsonl(path: Path) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) with one JSON object a line.

    `id` and `name` are required strings; `aliases`, `types`, `type_names` and `xrefs` are lists of strings,
    `definition` and `source` strings, all of them optional or null. Other keys are counted and left out. Blank lines
    are skipped.

    Raises:
        PelError: A line holds anything else, an id comes twice (both with file and line), or the file is empty.
    """
    skipped: Counter[str] = Counter()
    return Records(_stream(Path(path), skipped), skipped)


def _stream(path: Path, skipped: Counter[str]) -> Iterator[Entity]:
    with opened(path) as file:
        yield from entities(path, numbered_lines(file), partial(_parse, skipped))


def _parse(skipped: Counter[str], line: bytes) -> Entity:
    record = parse_object(line)
    skipped.update(f'values of "{key}", which is no field' for key in record.keys() - FIELDS)
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
