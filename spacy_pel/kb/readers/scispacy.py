"""Entity records from the JSON lines of a scispaCy knowledge base."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...files.json_lines import numbered_lines, parse_object, required, text, texts
from ...files.lines import opened
from ..entity import Entity
from .rows import entities


def read_scispacy(path: Path) -> Iterator[Entity]:
    """Stream the entities of a UTF-8 file (or a .gz of one) with an object a line: `concept_id` and `canonical_name`,
    and as far as they are there `aliases`, `types` and `definition`.

    Raises:
        PelError: A line holds anything else, an id comes twice (both with file and line), or the file is empty.
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
