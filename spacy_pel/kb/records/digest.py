"""Hashes of the records, by which `kb verify` sees that something else than spacy-pel has changed them.

The hash of a table is the sum, modulo 2²⁵⁶, of the BLAKE2b hashes of its rows. The order of the rows does not matter to
it, and a change of some rows reads only those.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

BYTES = 32
TABLES = {
    "entities": ("row", "id", "name", "aliases", "types", "definition", "xrefs", "source"),
    "forms": ("key", "row"),
    "types": ("type", "row"),
    "vocabularies": ("vocabulary", "row"),
    "retired": ("id", "successor"),
    "removed": ("row",),
    "added_vectors": ("row", "fingerprint", "number", "vector"),
    "name_arrays": ("key", "value"),
    "postings": ("gram", "names"),
}
META, HASHES = "meta", "hashes"  # `meta["hashes"]` has one for each table, and one of the rest of `meta`


def digest(connection: sqlite3.Connection, table: str, where: str = "TRUE", parameters: tuple = ()) -> int:
    """The hash of those rows of a table that `where` lets through."""
    row = " || ',' || ".join(f"quote({column})" for column in TABLES[table])
    query = f"SELECT CAST({row} AS BLOB) FROM {table} WHERE {where}"
    total = 0
    for (text,) in connection.execute(query, parameters):  # whose cursor an interrupt closes, as no name is bound to it
        total += int.from_bytes(blake2b(text, digest_size=BYTES).digest(), "big")
    return total % 2 ** (8 * BYTES)


def note(
    connection: sqlite3.Connection, meta: dict[str, Any], sign: int, table: str, where: str, keys: Iterable[tuple]
) -> None:
    """Bring the hash of a table in `meta` up to date: after rows were added (`sign` 1), before some go (-1).

    Args:
        connection: To the file.
        meta: Of the file.
        sign: 1 or -1.
        table: The name of the table.
        where: A condition with parameters.
        keys: The parameters, of which each stands for other rows.
    """
    changed = sum(digest(connection, table, where, key) for key in keys)
    meta[HASHES][table] = _text(int(meta[HASHES][table], 16) + sign * changed)


def count_again(connection: sqlite3.Connection, meta: dict[str, Any], tables: Iterable[str] = tuple(TABLES)) -> None:
    """Take the hashes of whole `tables` anew."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    found = {table: _text(digest(connection, table)) for table in tables if table in there}
    meta[HASHES] = meta.get(HASHES, {}) | found


def seal(meta: dict[str, Any]) -> None:
    """Note the hash of `meta` itself."""
    meta[HASHES] = meta.get(HASHES, {}) | {META: _of_meta(meta)}


def changed_tables(connection: sqlite3.Connection, meta: dict[str, Any]) -> list[str]:
    """The tables, `meta` among them, that are not as they were written. None where there are no hashes."""
    noted = meta.get(HASHES)
    if noted is None:
        return []
    changed = [table for table in TABLES if table in noted and noted[table] != _text(digest(connection, table))]
    return changed if noted.get(META) == _of_meta(meta) else [META, *changed]


def _of_meta(meta: dict[str, Any]) -> str:
    kept = {key: value for key, value in meta.get(HASHES, {}).items() if key != META}
    text = json.dumps(meta | {HASHES: kept}, sort_keys=True)
    return blake2b(text.encode(), digest_size=BYTES).hexdigest()


def _text(number: int) -> str:
    return f"{number % 2 ** (8 * BYTES):0{2 * BYTES}x}"
