"""Readers of entity records, by the name of their format."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...files.lines import unpacked_suffix
from .csv import read_csv
from .jsonl import read_jsonl
from .kilt import read_kilt
from .mesh import read_mesh
from .obo import read_obo
from .records import Records
from .rrf import MRCONSO
from .scispacy import read_scispacy
from .umls import read_umls
from .zeshel import read_zeshel

READERS: dict[str, Callable[..., Records]] = {
    "jsonl": read_jsonl,
    "csv": read_csv,
    "umls": read_umls,
    "mesh": read_mesh,
    "obo": read_obo,
    "scispacy": read_scispacy,
    "zeshel": read_zeshel,
    "kilt": read_kilt,
}


SUFFIXES = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "csv", ".obo": "obo"}
FOLDERS = ("umls", "mesh", "zeshel")


def format_of(source: Path) -> str | None:
    """The format that the name of `source` tells, or for a folder a file in it, if they tell one."""
    if source.is_dir():
        return "umls" if MRCONSO.path(source) or MRCONSO.path(source / "META") else None
    return SUFFIXES.get(unpacked_suffix(source))


def read(format: str | None, source: str | Path, **options: Any) -> Records:
    """The records of a source.

    Args:
        format: A key of `READERS`; None: the one that the name of `source` tells.
        source: A file or folder.
        options: Keyword parameters of the reader of that format. Those that are None, empty or False are left out.

    Raises:
        PelError: The source is not there, the format is not known, or it does not take one of the options.
    """
    source = Path(source)
    format = format or format_of(source)
    given = {name: value for name, value in options.items() if value}
    if format is not None:
        _check_options(format, given)
    if not source.exists():
        raise PelError(f"{source} does not exist; name a file or folder with entity records.")
    if format is None:
        raise PelError(f"{source}: the name does not tell what is in it; say it with --format: {', '.join(READERS)}.")
    if source.is_dir() and format not in FOLDERS:
        raise PelError(f"{source} is a folder, and {format} a format of files; name the file.")
    return READERS[format](source, **given)


def _check_options(format: str, given: Iterable[str]) -> None:
    if format not in READERS:
        raise PelError(f'--format: "{format}" is not known; use {", ".join(READERS)}.')
    for name in given:
        if name not in _options(format):
            takers = [other for other in READERS if name in _options(other)]
            raise PelError(f"--{name.replace('_', '-')}: is for {' or '.join(takers)}, not for {format}; leave it out.")


def _options(format: str) -> set[str]:
    parameters = inspect.signature(READERS[format]).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
