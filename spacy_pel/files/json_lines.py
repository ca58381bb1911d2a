"""JSON lines: an object on each line, and its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..errors import PelError
from .lines import decoded, numbered


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of those in the file at `path` that are not blank."""
    return ((number, line) for number, line in numbered(path) if line.strip())


def parse_object(line: bytes, shape: str = '{"id": …, "name": …}') -> dict[str, Any]:
    """The JSON object on `line`.

    Args:
        line: In UTF-8, with or without a byte order mark.
        shape: What the message of an error says that the object should be like.

    Raises:
        PelError: The line is not UTF-8, or holds no JSON object.
    """
    try:
        record = json.loads(decoded(line).removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise PelError(f"the line is not valid JSON ({error}); write one JSON object a line") from error
    if not isinstance(record, dict):
        raise PelError(f"the line is not a JSON object but {json.dumps(record)[:40]}; write {shape}")
    return record


def required(record: dict[str, Any], key: str, hint: str = 'give every entity an "id" and a "name"') -> str:
    """The text under `key`.

    Args:
        record: An object.
        key: Of a text.
        hint: What the message of an error says to do.

    Raises:
        PelError: It is missing or blank, or no text.
    """
    value = text(record, key)
    if not value.strip():
        raise PelError(f'"{key}" is missing or empty; {hint}')
    return value


def did_you_mean(key: str, keys: Iterable[str]) -> str:
    """What to say after `key`, which is none of `keys`: which of them it may have been meant for, if any."""
    written = {own.casefold(): own for own in keys}
    near = get_close_matches(key.casefold(), list(written), n=1, cutoff=0.75)
    return f'; did you mean "{written[near[0]]}"?' if near else ""


def text(record: dict[str, Any], key: str) -> str:
    """The text under `key`, "" where it is missing or null.

    Raises:
        PelError: It is no text.
    """
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PelError(f'"{key}" is {json.dumps(value, default=repr)[:40]}; make it a string')
    return _checked(value, key)


def texts(record: dict[str, Any], key: str) -> tuple[str, ...]:
    """The texts under `key`, none where it is missing or null.

    Raises:
        PelError: It is no list of texts.
    """
    values = record.get(key)
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise PelError(f'"{key}" is {json.dumps(values)[:40]}; make it a list of strings')
    return tuple(_checked(value, key) for value in values)


def _checked(value: str, key: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise PelError(
            f'"{key}" has half of a surrogate pair (\\ud800 to \\udfff), which is no text; mend it'
        ) from error
    return value
