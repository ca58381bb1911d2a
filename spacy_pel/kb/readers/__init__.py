"""Readers of entity records, by the name of their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ..entity_store import Entity
from .csv import read_csv
from .jsonl import read_jsonl

READERS: dict[str, Callable[[Path], Iterator[Entity]]] = {"csv": read_csv, "jsonl": read_jsonl}
