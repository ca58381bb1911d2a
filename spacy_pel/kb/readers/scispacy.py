"""Entity records from the JSON lines of a scispaCy knowledge base."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ...files.json_lines import numbered_lines, parse_object, required, text, texts
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import entities


def read_scispacy(path: Path, *, strict: bool = False) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) with an object a line: `concept_id` and `canonical_name`,
    and as far as they are there `aliases`, `types` and `definition`.

    A line that holds anything else, or an id a second time, is left out with a warning.

    Args:
        path: The file.
        strict: Such a line is an error.

    Raises:
        PelError: More than one line in a hundred is left out (with the first of them), or the file is empty.
    """
    skipped: Counter[str] = Counter()
    faults = Faults(Path(path), skipped, strict=strict)
    return Records(entities(faults, numbered_lines(faults.path), _parse), skipped)


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
