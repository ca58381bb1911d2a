"""Entity records from the JSON lines of a scispaCy knowledge base."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..entity import Entity
from .json_fields import numbered_lines, parse_object, required, text, texts
from .rows import entities
from .source import opened


def read_scispacy(path: Path) -> Iterator[Entity]:
    """Stream the entities of a UTF-8 file (or a .gz of one) with an object a line: `concept_id` and `canonical_name`,
    and as far as they are there `aliases`, `types` and `definition`.

    RAISES: `PelError` naming file and line for anything else, for an id that comes twice, and for an empty file.
    """
    with opened(Path(path)) as file:
        yield from entities(path, numbered_lines(file), _parse)


def _parse(line: bytes) -> Entity:
    record = parse_object(line)
    name = required(record, "canonical_name")
    return Entity(
        id=required(record, "concept_id"),
        name=name,
        aliases=tuple(alias for alias in dict.fromkeys(texts(record, "aliases")) if alias != name),
        types=texts(record, "types"),
        definition=text(record, "definition"),
    )
