"""What the SQLite file of a KB holds, and how it is written: built, added to, removed from, closed up."""

from __future__ import annotations

import json
import sqlite3
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ...errors import PelError
from ..entity import Entity
from ..names.name_index import distinct_forms, is_searched, step, write_names
from ..names.normal_form import alias_key
from .counts import Counts

FORMAT_VERSION = 3
READABLE = (2, FORMAT_VERSION)  # 2 had no index of the names
APPLICATION_ID = 0x7350454C  # "sPEL", in the header of the file
BATCH = 10_000

# A removed entity leaves its row empty and in `removed`; an added one takes a row behind all others and has its vector
# in `added`, until the KB is compacted. `forms` and `types` lead from names (as `alias_key`) and types to rows. The
# tables that lead from 3-grams to names are in `name_index`.
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entities (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, aliases TEXT NOT NULL, types TEXT NOT NULL,
    definition TEXT NOT NULL, xrefs TEXT NOT NULL, source TEXT NOT NULL
);
CREATE TABLE forms (key INTEGER, row INTEGER, PRIMARY KEY (key, row)) WITHOUT ROWID;
CREATE TABLE types (type TEXT, row INTEGER, PRIMARY KEY (type, row)) WITHOUT ROWID;
CREATE TABLE retired (id TEXT PRIMARY KEY, successor TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE removed (row INTEGER PRIMARY KEY);
CREATE TABLE added (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TEMP TABLE new_forms (key INTEGER, row INTEGER);
CREATE TEMP TABLE new_types (type TEXT, row INTEGER);
"""
SORTED = """
INSERT INTO forms SELECT DISTINCT key, row FROM temp.new_forms ORDER BY key, row;
INSERT INTO types SELECT DISTINCT type, row FROM temp.new_types ORDER BY type, row;
"""


def build(
    connection: sqlite3.Connection,
    entities: Iterable[Entity],
    retired: Iterable[tuple[str, str]],
    notes: dict[str, str],
) -> None:
    """Fill an empty file with `entities`, numbered from row 0 in their order, and a `meta` with `notes`."""
    # A file that is not finished is thrown away, and a finished one synced by the caller: no journal needed.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.executescript(SCHEMA)
    connection.execute("BEGIN")
    counts = Counts()
    _insert(connection, enumerate(counts.count(entities)), forms="temp.new_forms", types="temp.new_types")
    if not counts.entities:
        raise PelError("There are no entities to build a KB from; give at least one.")
    _index_ids(connection)
    for statement in SORTED.strip().splitlines():
        connection.execute(statement)
    kept = _write_retired(connection, retired)
    meta: dict[str, Any] = {"format_version": FORMAT_VERSION, "build": uuid.uuid4().hex, **notes}
    meta |= {"counts": counts.totals() | ({"retired": kept} if kept else {}), "rows": counts.entities, "numbering": 0}
    if counts.type_names:
        meta["type_names"] = counts.type_names
    _index_names(connection, meta)
    write_meta(connection, meta)
    connection.execute("COMMIT")


def add(
    connection: sqlite3.Connection, meta: dict[str, Any], entities: Sequence[Entity], vectors: np.ndarray | None
) -> None:
    """Write new `entities` behind all others, with their `vectors` (n, dim) where the KB has any, and bring `meta` up
    to date. RAISES: `PelError` for an id that is there already or comes twice."""
    ids = [entity.id for entity in entities]
    twice = [id for id, count in Counter(ids).items() if count > 1]
    if twice:
        raise PelError(f'The id "{twice[0]}" comes twice among the entities to add; give each its own.')
    if there := rows_of(connection, ids):
        raise PelError(f"{_some(list(there))} in the KB already; change it with `spacy pel kb update` (kb.update).")
    counts = Counts()
    first = meta["rows"]
    _insert(connection, enumerate(counts.count(entities), start=first))
    if vectors is not None:
        blobs = ((first + i, vector.tobytes()) for i, vector in enumerate(vectors.astype("<f4")))
        connection.executemany("INSERT INTO added VALUES (?, ?)", blobs)
    connection.executemany("DELETE FROM retired WHERE id = ?", [(id,) for id in ids])
    meta["rows"] += len(entities)
    if counts.type_names:
        meta["type_names"] = meta.get("type_names", {}) | counts.type_names
    _recount(connection, meta, counts, +1)


def remove(connection: sqlite3.Connection, meta: dict[str, Any], ids: Sequence[str]) -> None:
    """Remove the entities `ids`, and the retired ids that they succeeded, and bring `meta` up to date.

    RAISES: `PelError` for an id that is not there."""
    delete_entities(connection, meta, ids)
    connection.executemany("DELETE FROM retired WHERE successor = ?", [(id,) for id in ids])


def delete_entities(connection: sqlite3.Connection, meta: dict[str, Any], ids: Sequence[str]) -> None:
    """`remove` for entities that come back at once, changed: they stay successors."""
    wanted = list(dict.fromkeys(ids))
    rows = rows_of(connection, wanted)
    if missing := [id for id in wanted if id not in rows]:
        raise PelError(f"{_some(missing)} not in the KB; nothing was changed.")
    counts = Counts()
    for _ in counts.count(_delete_row(connection, row) for row in rows.values()):
        pass
    _recount(connection, meta, counts, -1)


def renumber_rows(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Number the entities anew, in their order and without the empty rows, and forget the vectors in `added`: what is
    done where a vector file with one row an entity takes their place."""
    connection.execute("DELETE FROM added")
    empty = [row for (row,) in connection.execute("SELECT row FROM removed ORDER BY row")]
    if empty:
        _close_gaps(connection, empty)
        meta["rows"] -= len(empty)
        meta["numbering"] += 1
    if empty or meta.get("names", {}).get("of") != meta["rows"]:
        _index_names(connection, meta)


def _close_gaps(connection: sqlite3.Connection, empty: list[int]) -> None:
    connection.create_function("closed_up", 1, lambda row: row - bisect_left(empty, row), deterministic=True)
    for table in ("entities", "forms", "types"):  # in ascending order: what moves down finds its place free
        connection.execute(f"UPDATE {table} SET row = closed_up(row) WHERE row > ?", (empty[0],))
    connection.execute("DELETE FROM removed")


def _index_names(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Write the index of the names of all entities, whose rows have no gaps."""
    n_names = meta["counts"]["entities"] + meta["counts"]["aliases"]
    query = "SELECT name, aliases FROM entities WHERE row % ? = 0 ORDER BY row"
    forms = (distinct_forms(name, _load(aliases)) for name, aliases in connection.execute(query, (step(n_names),)))
    written = write_names(connection, forms, is_searched(n_names))
    meta["names"] = written | {"of": meta["rows"], "numbering": meta["numbering"]}  # which tells it from an older one
    meta["format_version"] = FORMAT_VERSION


def entity_of(record: tuple, type_names: dict[str, str] | None) -> Entity:
    """The entity in a record of the table `entities`."""
    _, id, name, aliases, types, definition, xrefs, source = record
    kinds = _load(types)
    names = tuple(type_names.get(kind, kind) for kind in kinds) if type_names else ()
    return Entity(id, name, _load(aliases), kinds, definition, _load(xrefs), source, names)


def rows_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The rows of those `ids` that are there."""
    query = "SELECT id, row FROM entities WHERE id = ?"
    return dict(found for id in ids for found in connection.execute(query, (id,)))


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")}


def write_meta(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    encoded = [(key, json.dumps(value, ensure_ascii=False)) for key, value in meta.items()]
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", encoded)


def pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _insert(
    connection: sqlite3.Connection, numbered: Iterable[tuple[int, Entity]], forms: str = "forms", types: str = "types"
) -> None:
    numbered = iter(numbered)
    while batch := list(islice(numbered, BATCH)):
        connection.executemany("INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_record, batch))
        connection.executemany(f"INSERT OR IGNORE INTO {forms} VALUES (?, ?)", _form_rows(batch))
        connection.executemany(f"INSERT OR IGNORE INTO {types} VALUES (?, ?)", _type_rows(batch))


def _delete_row(connection: sqlite3.Connection, row: int) -> Entity:
    entity = entity_of(connection.execute("SELECT * FROM entities WHERE row = ?", (row,)).fetchone(), None)
    connection.executemany("DELETE FROM forms WHERE key = ? AND row = ?", _form_rows([(row, entity)]))
    connection.executemany("DELETE FROM types WHERE type = ? AND row = ?", _type_rows([(row, entity)]))
    connection.execute("DELETE FROM entities WHERE row = ?", (row,))
    connection.execute("DELETE FROM added WHERE row = ?", (row,))
    connection.execute("INSERT INTO removed VALUES (?)", (row,))
    return entity


def _form_rows(batch: Iterable[tuple[int, Entity]]) -> Iterator[tuple[int, int]]:
    return ((alias_key(form), row) for row, entity in batch for form in (entity.name, *entity.aliases))


def _type_rows(batch: Iterable[tuple[int, Entity]]) -> Iterator[tuple[str, int]]:
    return ((kind, row) for row, entity in batch for kind in entity.types)


def _record(numbered: tuple[int, Entity]) -> tuple:
    row, e = numbered
    return row, e.id, e.name, _dump(e.aliases), _dump(e.types), e.definition, _dump(e.xrefs), e.source


def _dump(texts: tuple[str, ...]) -> str:
    return json.dumps(texts, ensure_ascii=False)


def _load(texts: str) -> tuple[str, ...]:
    return tuple(json.loads(texts))


def _index_ids(connection: sqlite3.Connection) -> None:
    """Index the ids once they are all there: one sort, and no look-up per insertion."""
    try:
        connection.execute("CREATE UNIQUE INDEX entity_ids ON entities (id)")
    except sqlite3.IntegrityError:
        id, first, second = connection.execute(
            "SELECT id, MIN(row), MAX(row) FROM entities GROUP BY id HAVING COUNT(*) > 1 LIMIT 1"
        ).fetchone()
        raise PelError(
            f'The id "{id}" comes twice, as entity {first + 1} and as entity {second + 1}; give each its own id.'
        ) from None


def _write_retired(connection: sqlite3.Connection, retired: Iterable[tuple[str, str]]) -> int:
    connection.executemany("INSERT OR REPLACE INTO retired VALUES (?, ?)", retired)
    known = "SELECT id FROM entities"
    connection.execute(f"DELETE FROM retired WHERE id IN ({known}) OR successor NOT IN ({known})")
    return _count(connection, "retired")


def _recount(connection: sqlite3.Connection, meta: dict[str, Any], changed: Counts, sign: int) -> None:
    """Bring `meta["counts"]` up to date after entities were added (`sign` 1) or removed (-1)."""
    totals, counts = changed.totals(), meta["counts"]
    for what in ("entities", "aliases", "definitions"):
        counts[what] += sign * totals[what]
    counts["types"] = _count(connection, "(SELECT DISTINCT type FROM types)")
    if "retired" in counts:
        counts["retired"] = _count(connection, "retired")


def _count(connection: sqlite3.Connection, table: str) -> int:
    return connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


def _some(ids: Sequence[str]) -> str:
    return f'"{ids[0]}" is' if len(ids) == 1 else f'"{ids[0]}" and {len(ids) - 1:,} more ids are'
