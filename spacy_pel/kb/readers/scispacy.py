"""Entity records from the JSON lines of a scispaCy knowledge base."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from ...files.json_lines import numbered_lines, parse_object, required, text
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import entities, filled_texts


def read_scispacy(path: Path, *, strict: bool = False) -> Records:
    """Stream the entities of a UTF-8 file (or a .gz of one) with an object a line: `concept_id` and `canonical_name`,
    and as far as they are there `aliases`, `types` and `definition`. Blank aliases and types are counted and left out.

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
    name = required(record, "canonical_name")
    return Entity(
        id=required(record, "concept_id").strip(),
        name=name,
        aliases=tuple(alias for alias in dict.fromkeys(filled_texts(record, "aliases", skipped)) if alias != name),
        types=filled_texts(record, "types", skipped),
        definition=text(record, "definition"),
    )
