"""What the SQLite file of a KB holds: its tables, its versions, its `meta`, and an entity as a record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from ..entity import Entity

FORMAT_VERSION = 4
READABLE = (2, 3, FORMAT_VERSION)  # 2 had no index of the names, 2 and 3 had one index of vectors at most
APPLICATION_ID = 0x7350454C  # "sPEL", in the header of the file

# A removed entity leaves its row empty and in `removed`. An added one takes a row behind all others and has its vectors
# in `added_vectors` until the KB is compacted: for each index, by its fingerprint, those of its encoder from number 0.
# `forms` and `types` lead from names (as `alias_key`) and types to rows. The tables that lead from 3-grams to names are
# in `names.tables`.
ADDED_VECTORS = """
CREATE TABLE added_vectors (
    row INTEGER, fingerprint TEXT, number INTEGER, vector BLOB NOT NULL, PRIMARY KEY (row, fingerprint, number)
)
"""
SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entities (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, aliases TEXT NOT NULL, types TEXT NOT NULL,
    definition TEXT NOT NULL, xrefs TEXT NOT NULL, source TEXT NOT NULL
);
CREATE TABLE forms (key INTEGER, row INTEGER, PRIMARY KEY (key, row)) WITHOUT ROWID;
CREATE TABLE types (type TEXT, row INTEGER, PRIMARY KEY (type, row)) WITHOUT ROWID;
CREATE TABLE retired (id TEXT PRIMARY KEY, successor TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE removed (row INTEGER PRIMARY KEY);
{ADDED_VECTORS};
CREATE TEMP TABLE new_forms (key INTEGER, row INTEGER);
CREATE TEMP TABLE new_types (type TEXT, row INTEGER);
"""
OLD_KEYS = ("vectors", "fingerprint", "dim", "metric", "index_type")  # of the index, in the meta of formats 2 and 3


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """The `meta` of a file of any format that can be read, with its indexes as format 4 has them."""
    meta = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")}
    if "indexes" not in meta:
        old = {key: meta.pop(key, None) for key in OLD_KEYS}
        meta["indexes"] = {old["fingerprint"]: _index_of(old)} if old["vectors"] else {}
    return meta


def write_meta(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Put `meta` in the place of the present one."""
    encoded = [(key, json.dumps(value, ensure_ascii=False)) for key, value in meta.items()]
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", encoded)


def upgrade(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Bring the tables of a file of format 2 or 3, and its `meta`, to format 4."""
    if meta["format_version"] == FORMAT_VERSION:
        return
    connection.execute(ADDED_VECTORS)
    for fingerprint in meta["indexes"]:
        connection.execute("INSERT INTO added_vectors SELECT row, ?, 0, vector FROM added", (fingerprint,))
    connection.execute("DROP TABLE added")
    meta["format_version"] = FORMAT_VERSION


def added_vectors(connection: sqlite3.Connection, meta: dict[str, Any]) -> list[tuple[str, int, bytes]]:
    """(fingerprint, row, vector) of all vectors of added entities, by row and number, in a file of any format."""
    if meta["format_version"] == FORMAT_VERSION:
        query = "SELECT fingerprint, row, vector FROM added_vectors ORDER BY row, number"
        return connection.execute(query).fetchall()
    found = connection.execute("SELECT row, vector FROM added ORDER BY row").fetchall()
    return [(fingerprint, row, vector) for fingerprint in meta["indexes"] for row, vector in found]


def removed_rows(connection: sqlite3.Connection) -> list[int]:
    """The rows that removed entities left empty, ascending."""
    return [row for (row,) in connection.execute("SELECT row FROM removed ORDER BY row")]


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The value of an SQLite pragma."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def record_of(row: int, entity: Entity) -> tuple:
    """The record of an entity in the table `entities`."""
    e = entity
    return row, e.id, e.name, _dump(e.aliases), _dump(e.types), e.definition, _dump(e.xrefs), e.source


def entity_of(record: tuple, type_names: dict[str, str] | None) -> Entity:
    """The entity in a record of the table `entities`, with those `type_names` that its types have."""
    _, id, name, aliases, types, definition, xrefs, source = record
    kinds = loaded(types)
    names = tuple(type_names.get(kind, kind) for kind in kinds) if type_names else ()
    return Entity(id, name, loaded(aliases), kinds, definition, loaded(xrefs), source, names)


def loaded(texts: str) -> tuple[str, ...]:
    """The texts in a column that holds several."""
    return tuple(json.loads(texts))


def _dump(texts: Iterable[str]) -> str:
    return json.dumps(texts, ensure_ascii=False)


def _index_of(old: dict[str, Any]) -> dict[str, Any]:
    file = old["vectors"]
    vectors = {"name": file["file"]} | {key: file.get(key) for key in ("size", "sha256", "sample")}
    shape = {key: old[key] for key in ("dim", "metric", "index_type")}
    return {"kind": "entity", **shape, "count": file["rows"], "files": {"vectors": vectors}}
