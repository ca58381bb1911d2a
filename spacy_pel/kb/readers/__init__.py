"""Readers of entity records, by the name of their format."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...errors import PelError
from ..entity import Entity
from .csv import read_csv
from .jsonl import read_jsonl
from .mesh import read_mesh
from .obo import read_obo
from .records import Records
from .scispacy import read_scispacy
from .source import unpacked_suffix
from .umls import read_umls

READERS: dict[str, Callable[..., Iterable[Entity]]] = {
    "jsonl": read_jsonl,
    "csv": read_csv,
    "umls": read_umls,
    "mesh": read_mesh,
    "obo": read_obo,
    "scispacy": read_scispacy,
}


SUFFIXES = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "csv", ".obo": "obo"}
FOLDERS = ("umls", "mesh")


def format_of(source: Path) -> str | None:
    """The format that the name of `source` speaks of, if it does."""
    return SUFFIXES.get(unpacked_suffix(source))


def read(format: str | None, source: Path, **options: Any) -> Records:
    """The records of `source`, with those of `options` that are set (not None, empty or False).

    format: a key of `READERS`; None: the one that the name of `source` speaks of.
    RAISES: `PelError` for a source that is not there, a format that is not known and an option that it does not take:
        the options of a format are the keyword parameters of its reader.
    """
    format = format or format_of(source)
    if format is None:
        raise PelError(f"{source}: the name does not tell what is in it; say it with --format: {', '.join(READERS)}.")
    if format not in READERS:
        raise PelError(f'--format: "{format}" is not known; use {", ".join(READERS)}.')
    given = {name: value for name, value in options.items() if value}
    for name in given:
        if name not in _options(format):
            takers = [other for other in READERS if name in _options(other)]
            raise PelError(f"--{name.replace('_', '-')}: is for {' or '.join(takers)}, not for {format}; leave it out.")
    if not source.exists():
        raise PelError(f"{source} does not exist; name a file or folder with entity records.")
    if source.is_dir() and format not in FOLDERS:
        raise PelError(f"{source} is a folder, and {format} a format of files; name the file.")
    found = READERS[format](source, **given)
    return found if isinstance(found, Records) else Records(found)


def _options(format: str) -> set[str]:
    parameters = inspect.signature(READERS[format]).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
