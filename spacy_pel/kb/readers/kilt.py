"""Entity records from the knowledge source of KILT: the articles of Wikipedia as JSON lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ...files.json_lines import numbered_lines, parse_object, required, texts
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import entities

SHAPE = '{"wikipedia_id": …, "wikipedia_title": …, "text": [paragraph, …]}'
HEADING = "Section::::"  # what a paragraph that is a heading begins with


def read_kilt(path: Path, *, strict: bool = False) -> Records:
    """Stream the articles of a UTF-8 file (or a .gz of one) with an object a line: `wikipedia_id`, `wikipedia_title`,
    and `text`, a list of paragraphs of which the first is the title.

    The definition is what stands before the first heading. A line that holds anything else, or an id a second time, is
    left out with a warning.

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
    record = parse_object(line, SHAPE)
    title = required(record, "wikipedia_title", f"write {SHAPE}")
    paragraphs = [paragraph.strip() for paragraph in texts(record, "text")]
    if paragraphs and paragraphs[0] == title.strip():
        del paragraphs[0]
    end = next((i for i, paragraph in enumerate(paragraphs) if paragraph.startswith(HEADING)), len(paragraphs))
    id_ = required(record, "wikipedia_id", f"write {SHAPE}")
    return Entity(id_, title, definition=" ".join(filter(None, paragraphs[:end])))
