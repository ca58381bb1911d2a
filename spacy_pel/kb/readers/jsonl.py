"""Entity records from JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import PelError
from ..entity_store import Entity
from .rows import entities


def read_jsonl(path: Path) -> Iterator[Entity]:
    """Stream the entities of a UTF-8 file with one JSON object a line.

    `id` and `name` are required strings; `aliases`, `types` and `xrefs` are lists of strings, `definition` and `source`
    strings, all of them optional or null. Other keys and blank lines are skipped.

    RAISES: `PelError` naming file and line for anything else, for an id that comes twice, and for an empty file.
    """
    with Path(path).open("rb") as file:
        numbered = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        yield from entities(path, numbered, _parse)


def _parse(line: bytes) -> Entity:
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PelError(f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise PelError(f"the line is not valid JSON ({error}); write one JSON object a line") from error
    if not isinstance(record, dict):
        raise PelError(f'the line is not a JSON object but {json.dumps(record)[:40]}; write {{"id": …, "name": …}}')
    return Entity(
        id=_required(record, "id"),
        name=_required(record, "name"),
        aliases=_texts(record, "aliases"),
        types=_texts(record, "types"),
        definition=_text(record, "definition"),
        xrefs=_texts(record, "xrefs"),
        source=_text(record, "source"),
    )


def _required(record: dict[str, Any], key: str) -> str:
    text = _text(record, key)
    if not text.strip():
        raise PelError(f'"{key}" is missing or empty; give every entity an "id" and a "name"')
    return text


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PelError(f'"{key}" is {json.dumps(value)[:40]}; make it a string')
    return _checked(value, key)


def _texts(record: dict[str, Any], key: str) -> tuple[str, ...]:
    values = record.get(key)
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise PelError(f'"{key}" is {json.dumps(values)[:40]}; make it a list of strings')
    return tuple(_checked(value, key) for value in values)


def _checked(text: str, key: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PelError(
            f'"{key}" has half of a surrogate pair (\\ud800 to \\udfff), which is no text; mend it'
        ) from error
    return text
