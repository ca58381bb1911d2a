"""Entity records from JSON lines: one object a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...files.json_lines import did_you_mean, numbered_lines, parse_object, required, text, texts
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import entities, filled_texts

FIELDS = frozenset(field.name for field in fields(Entity))


def read_jsonl(path: Path, *, strict: bool = False) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) with one JSON object a line.

    `id` and `name` are required strings; `aliases`, `types`, `type_names` and `xrefs` are lists of strings,
    `definition` and `source` strings, all of them optional or null. Other keys are counted and left out, as are blank
    aliases, types and xrefs. Blank lines are skipped.

    A line that holds anything else, or an id a second time, is left out with a warning.

    Args:
        path: The file.
        strict: Such a line is an error.

    Raises:
        PelError: More than one line in a hundred is left out (with the first of them), or the file is empty.
    """
    skipped: Counter[str] = Counter()
    faults = Faults(Path(path), skipped, strict=strict)
    return Records(entities(faults, numbered_lines(faults.path), partial(_parse, skipped)), skipped)


def _parse(skipped: Counter[str], line: bytes) -> Entity:
    record = parse_object(line)
    skipped.update(_unknown(key) for key in record.keys() - FIELDS)
    if "concept_id" in record and "id" not in record:
        raise PelError('it has a "concept_id" in place of an "id", as scispaCy\'s KBs have; say --format scispacy')
    return Entity(
        id=required(record, "id").strip(),
        name=required(record, "name"),
        aliases=filled_texts(record, "aliases", skipped),
        types=filled_texts(record, "types", skipped),
        definition=text(record, "definition"),
        xrefs=filled_texts(record, "xrefs", skipped),
        source=text(record, "source"),
        type_names=_type_names(record),
    )


def _type_names(record: dict[str, Any]) -> tuple[str, ...]:
    """The names of the types, but for blank ones of these."""
    types, names = texts(record, "types"), texts(record, "type_names")
    if len(names) != len(types):
        return names  # an `Entity` says what is wrong with them
    return tuple(name for kind, name in zip(types, names, strict=True) if kind.strip())


@cache
def _unknown(key: str) -> str:
    return f'values of "{key}", which is no field{did_you_mean(key, FIELDS)}'
