"""The tables that lead from 3-grams to names, and how they are written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np

from .grams import name_grams, squared_idf

MOST_NAMES = 500_000  # of a KB that can be searched by 3-grams
SAMPLE = 100_000  # names that give the weights, of a larger one
TINY = 1e-9
SCHEMA = """
CREATE TABLE IF NOT EXISTS name_arrays (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS postings (gram INTEGER PRIMARY KEY, names BLOB NOT NULL);
DELETE FROM name_arrays;
DELETE FROM postings;
"""


def is_searched(n_names: int) -> bool:
    """Whether a KB with so many names can be searched by 3-grams."""
    return n_names <= MOST_NAMES


def step(n_names: int) -> int:
    """One entity in how many is read for the index of a KB with so many names."""
    return 1 if is_searched(n_names) else max(1, n_names // SAMPLE)


def write_names(connection: sqlite3.Connection, forms: Iterable[list[str]], searched: bool) -> dict[str, int]:
    """Write what a `NameIndex` reads, in place of any that is there.

    Args:
        connection: To the file of the KB.
        forms: The `distinct_forms` of the entities, from row 0, or of a sample of them, which is not `searched`.
        searched: Whether the index is to find entities, and not only to compare names.

    Returns:
        The `meta` of the index.
    """
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    names: list[str] = []
    first: list[int] = []
    for own in forms:
        first.append(len(names))
        names += own
    grams, owner = name_grams(names)
    vocabulary, starts, counts = np.unique(grams, return_index=True, return_counts=True)
    arrays = {"grams": vocabulary.astype("<i8"), "counts": counts.astype("<i4")}
    if searched:
        squares = np.repeat(squared_idf(counts, len(names)), counts)
        norms = np.sqrt(np.bincount(owner, squares, minlength=len(names)))
        arrays["norms"] = np.maximum(norms, TINY).astype("<f4")
        arrays["first"] = np.array(first, dtype="<i4")
        postings = np.split(owner.astype("<i4"), starts[1:])
        connection.executemany("INSERT INTO postings VALUES (?, ?)", enumerate(own.tobytes() for own in postings))
    connection.executemany("INSERT INTO name_arrays VALUES (?, ?)", [(k, a.tobytes()) for k, a in arrays.items()])
    return {"names": len(names), "rows": len(first) if searched else 0}
