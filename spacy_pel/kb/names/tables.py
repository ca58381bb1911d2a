"""The tables that lead from 3-grams to names: how they are written, and read from end to end for every text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from ..numbering import EntityRows
from .grams import TINY, Text, name_grams, squared_idf

MOST_NAMES = 100_000  # of a KB that keeps the index of its names in tables: for more a file is faster
TYPES = {"grams": "<i8", "counts": "<i4", "first": "<i4", "norms": "<f4"}
SCHEMA = """
CREATE TABLE IF NOT EXISTS name_arrays (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS postings (gram INTEGER PRIMARY KEY, names BLOB NOT NULL);
DELETE FROM name_arrays;
DELETE FROM postings;
"""


class Postings(Protocol):
    """Where `TableNames` reads."""

    def postings(self, grams: Iterable[int]) -> dict[int, np.ndarray]: ...


class TableNames:
    """The names of a KB, of which tables list those that have a 3-gram.

    Attributes:
        n_rows: How many entities are in the index: 0 for a KB of more names that an older spacy-pel wrote.
    """

    def __init__(self, records: Postings, arrays: Mapping[str, np.ndarray], n_names: int, n_rows: int) -> None:
        self.n_rows = n_rows
        self._records, self._arrays, self._n_names = records, arrays, n_names

    def beside(self, text: Text) -> TableMatch:
        """`text` compared with all names."""
        if not self.n_rows:
            return TableMatch(np.zeros(0, dtype=np.float32))
        found = self._records.postings(text.numbers.tolist())
        postings = [found[number] for number in text.numbers.tolist()]
        names = np.concatenate([np.zeros(0, dtype=np.int32), *postings])
        if not ((names >= 0) & (names < self._n_names)).all():
            raise ValueError("its index of names lists names that are not there")
        products = np.bincount(names, np.repeat(text.weights, list(map(len, postings))), self._n_names)
        alike = np.maximum.reduceat(products.astype(np.float32) / self._arrays["norms"], self._arrays["first"])
        return TableMatch(alike / text.norm)


class TableMatch:
    """How alike the entities are to a text: (n,) float32, by their rows."""

    def __init__(self, alike: np.ndarray) -> None:
        self._alike = alike

    def best(self, k: int, within: EntityRows | None, removed: EntityRows) -> EntityRows:
        """The rows of the `k` that are most alike, none of which is `removed`."""
        rows = None if within is None else within[within < len(self._alike)]
        alike = self._alike
        if len(removed):
            alike = alike.copy()
            alike[removed[removed < len(alike)]] = 0
        alike = alike if rows is None else alike[rows]
        most = np.argpartition(-alike, k)[:k] if k < len(alike) else np.arange(len(alike))
        most = most[alike[most] > 0]
        return EntityRows(most if rows is None else rows[most])

    def scores(self, rows: EntityRows) -> np.ndarray:
        """How alike the entities at `rows` (n,) are."""
        return self._alike[rows]


def in_tables(n_names: int) -> bool:
    """Whether a KB with so many names keeps their index in tables."""
    return n_names <= MOST_NAMES


def write_tables(connection: sqlite3.Connection, forms: Iterable[list[str]]) -> dict[str, int]:
    """Write what `TableNames` reads, in place of any that is there.

    Args:
        connection: To the file of the KB.
        forms: The `distinct_forms` of the entities, from row 0.

    Returns:
        The `meta` of the index.
    """
    names: list[str] = []
    first: list[int] = []
    for own in forms:
        first.append(len(names))
        names += own
    grams, owner = name_grams(names)
    vocabulary, starts, counts = np.unique(grams, return_index=True, return_counts=True)
    squares = np.repeat(squared_idf(counts, len(names)), counts)
    norms = np.maximum(np.sqrt(np.bincount(owner, squares, minlength=len(names))), TINY)
    write_arrays(connection, {"grams": vocabulary, "counts": counts, "norms": norms, "first": np.array(first)})
    postings = np.split(owner.astype("<i4"), starts[1:])
    connection.executemany("INSERT INTO postings VALUES (?, ?)", enumerate(own.tobytes() for own in postings))
    return {"names": len(names), "rows": len(first)}


def write_arrays(connection: sqlite3.Connection, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `arrays` in the place of all that the tables hold."""
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    blobs = [(key, values.astype(TYPES[key]).tobytes()) for key, values in arrays.items()]
    connection.executemany("INSERT INTO name_arrays VALUES (?, ?)", blobs)
