"""How the SQLite file of a KB is written: built, added to, removed from, its gaps closed."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, starmap
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import named
from ...errors import PelError
from ..entity import Entity, each_given, is_text
from ..names.files import is_there, write_names
from ..names.normal_form import alias_key, distinct_forms
from ..names.tables import in_tables, write_arrays, write_tables
from ..numbering import EntityRows
from . import digest, schema
from .counts import Counts

BATCH = 10_000
RENUMBERED = ("entities", "forms", "types", "vocabularies")  # the tables that name rows of entities, but for vectors
SORTED = """
INSERT INTO forms SELECT DISTINCT key, row FROM temp.new_forms ORDER BY key, row;
INSERT INTO types SELECT DISTINCT type, row FROM temp.new_types ORDER BY type, row;
"""


def build(
    folder: Path,
    connection: sqlite3.Connection,
    entities: Iterable[Entity],
    retired: Iterable[tuple[str, str]] | Mapping[str, str],
    notes: dict[str, str],
) -> None:
    """Fill an empty file with `entities`, numbered from row 0 in their order, and a `meta` with `notes`.

    The file of their names, if they get one, is written below `folder`, that of the KB.
    """
    # A file that is not finished is thrown away, and a finished one synced by the caller: no journal needed.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.executescript(schema.SCHEMA)
    connection.execute("BEGIN")
    counts = Counts()
    _insert(connection, enumerate(counts.count(each_given(entities))), forms="temp.new_forms", types="temp.new_types")
    if not counts.entities:
        raise PelError("There are no entities to build a KB from; give at least one.")
    _index_ids(connection)
    for statement in SORTED.strip().splitlines():
        connection.execute(statement)
    schema.write_vocabularies(connection)
    kept = _write_retired(connection, retired)
    meta: dict[str, Any] = {"format_version": schema.FORMAT_VERSION, "build": uuid.uuid4().hex, **notes}
    meta |= {"counts": counts.totals() | ({"retired": kept} if kept else {}), "rows": counts.entities, "numbering": 0}
    meta["indexes"] = {}
    if counts.type_names:
        meta["type_names"] = counts.type_names
    digest.count_again(connection, meta)
    index_names(folder, connection, meta)
    schema.write_meta(connection, meta)
    connection.execute("COMMIT")


def add(connection: sqlite3.Connection, meta: dict[str, Any], entities: Sequence[Entity]) -> EntityRows:
    """Write new `entities` behind all others, and bring `meta` up to date.

    Returns:
        Their rows (n,).

    Raises:
        PelError: An id is there already or comes twice, or a type is called otherwise than before.
    """
    ids = [entity.id for entity in entities]
    twice = [id for id, count in Counter(ids).items() if count > 1]
    if twice:
        raise PelError(f'The id "{twice[0]}" comes twice among the entities to add; give each its own.')
    if there := rows_of(connection, ids):
        raise PelError(f"{_some(list(there))} in the KB already; change it with `spacy pel kb update` (kb.update).")
    counts = Counts(meta.get("type_names"))
    first = meta["rows"]
    _insert(connection, enumerate(counts.count(entities), start=first))
    connection.execute(f"INSERT INTO vocabularies {schema.CODES} AND row >= ?", (first,))
    _note_new(connection, meta, list(enumerate(entities, start=first)))
    _delete(connection, meta, "retired", "id = ?", [(id,) for id in ids])
    meta["rows"] += len(entities)
    if counts.type_names:
        meta["type_names"] = counts.type_names
    _recount(connection, meta, counts, +1)
    return EntityRows(np.arange(first, meta["rows"]))


def add_vectors(
    connection: sqlite3.Connection, meta: dict[str, Any], fingerprint: str, owners: EntityRows, vectors: np.ndarray
) -> None:
    """Write the `vectors` (v, dim) of added entities for one index. owners: (v,), the row of each, ascending."""
    rows = owners.tolist()
    numbers = np.arange(len(rows)) - np.searchsorted(owners, owners)
    blobs = (vector.tobytes() for vector in vectors.astype("<f4"))
    values = zip(rows, [fingerprint] * len(rows), numbers.tolist(), blobs, strict=True)
    connection.executemany("INSERT INTO added_vectors VALUES (?, ?, ?, ?)", values)
    keys = [(row, fingerprint) for row in dict.fromkeys(rows)]
    digest.note(connection, meta, +1, "added_vectors", "row = ? AND fingerprint = ?", keys)


def forget_vectors(connection: sqlite3.Connection, meta: dict[str, Any], fingerprint: str) -> None:
    """Forget what `add_vectors` wrote for an index, whose files hold these vectors now or which is dropped."""
    _delete(connection, meta, "added_vectors", "fingerprint = ?", [(fingerprint,)])


def remove(connection: sqlite3.Connection, meta: dict[str, Any], ids: Sequence[str]) -> None:
    """Remove the entities `ids`, and the retired ids that they succeeded, and bring `meta` up to date.

    Raises:
        PelError: An id is not there.
    """
    delete_entities(connection, meta, ids)
    query = "SELECT id FROM retired WHERE successor IN (SELECT value FROM json_each(?))"  # which reads the table once
    retired = schema.fetched(connection, query, (json.dumps(list(ids), ensure_ascii=False),))
    _delete(connection, meta, "retired", "id = ?", retired)
    if retired:
        meta["counts"]["retired"] -= len(retired)


def delete_entities(connection: sqlite3.Connection, meta: dict[str, Any], ids: Sequence[str]) -> None:
    """`remove` for entities that come back at once, changed: they stay successors."""
    wanted = list(dict.fromkeys(ids))
    rows = rows_of(connection, wanted)
    if missing := [id for id in wanted if id not in rows]:
        raise PelError(f"{_some(missing)} not in the KB; nothing was changed.")
    counts = Counts()
    for _ in counts.count(_delete_row(connection, meta, row) for row in rows.values()):
        pass
    _recount(connection, meta, counts, -1)


def renumber_rows(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Number the entities anew, in their order and without the empty rows. `added_vectors` must be empty."""
    empty = schema.removed_rows(connection)
    if not empty:
        return
    connection.execute(f"PRAGMA cache_spill = {schema.FEW_PAGES}")  # all rows change, and nobody may read them now
    connection.execute("CREATE TEMP TABLE gaps (row INTEGER PRIMARY KEY, before INTEGER)")
    connection.executemany("INSERT INTO gaps VALUES (?, ?)", zip(empty, range(1, len(empty) + 1), strict=True))
    connection.execute("DELETE FROM forms WHERE row IN (SELECT row FROM gaps)")  # as an older spacy-pel read some names
    for table in RENUMBERED:  # in ascending order: what moves down finds its place free
        gaps = f"(SELECT before FROM gaps WHERE gaps.row < {table}.row ORDER BY gaps.row DESC LIMIT 1)"
        connection.execute(f"UPDATE {table} SET row = row - {gaps} WHERE row > ?", (empty[0],))
    connection.execute("DROP TABLE gaps")
    connection.execute("DELETE FROM removed")
    digest.count_again(connection, meta, (*RENUMBERED, "removed"))
    meta["rows"] -= len(empty)
    meta["numbering"] += 1


def bring_names_up_to_date(folder: Path, connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Index the names again where entities have come or rows have changed since, or where they cannot be searched. The
    rows must have no gaps."""
    names = meta.get("names", {})
    current = (names.get("of"), names.get("numbering")) == (meta["rows"], meta["numbering"])
    searched = is_there(folder, names["file"]) if "file" in names else names.get("rows")
    if not (current and searched):
        index_names(folder, connection, meta)


def index_names(folder: Path, connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Write the index of the names of all entities, whose rows have no gaps. folder: Of the KB."""
    found = connection.execute("SELECT name, aliases FROM entities ORDER BY row")
    with closing(found):
        forms = (distinct_forms(name, schema.loaded(aliases)) for name, aliases in found)
        if in_tables(meta["counts"]["entities"] + meta["counts"]["aliases"]):
            written: dict[str, Any] = write_tables(connection, forms)
        else:
            file, vocabulary = write_names(folder, forms, meta.get("names", {}).get("file"))
            write_arrays(connection, {"grams": vocabulary.grams, "counts": vocabulary.counts})
            written = {"names": vocabulary.n_names, "rows": 0, "file": file}  # no rows in tables
    digest.count_again(connection, meta, ("name_arrays", "postings"))
    meta["names"] = written | {"of": meta["rows"], "numbering": meta["numbering"]}  # which tells it from an older one


def rows_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The rows of those `ids` that are there."""
    query = "SELECT id, row FROM entities WHERE id = ?"
    return dict(found for id in filter(is_text, ids) for found in connection.execute(query, (id,)))


def _insert(
    connection: sqlite3.Connection, numbered: Iterable[tuple[int, Entity]], forms: str = "forms", types: str = "types"
) -> None:
    numbered = iter(numbered)
    while batch := list(islice(numbered, BATCH)):
        connection.executemany("INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?, ?, ?)", starmap(schema.record_of, batch))
        connection.executemany(f"INSERT OR IGNORE INTO {forms} VALUES (?, ?)", _form_rows(batch))
        connection.executemany(f"INSERT OR IGNORE INTO {types} VALUES (?, ?)", _type_rows(batch))


def _note_new(connection: sqlite3.Connection, meta: dict[str, Any], numbered: list[tuple[int, Entity]]) -> None:
    digest.note(connection, meta, +1, "entities", "row = ?", [(row,) for row, _ in numbered])
    digest.note(connection, meta, +1, "forms", "key = ? AND row = ?", set(_form_rows(numbered)))
    digest.note(connection, meta, +1, "types", "type = ? AND row = ?", set(_type_rows(numbered)))
    for row, _ in numbered:
        digest.note(connection, meta, +1, *_vocabularies_of(connection, row))


def _delete_row(connection: sqlite3.Connection, meta: dict[str, Any], row: int) -> Entity:
    entity = schema.entity_of(connection.execute("SELECT * FROM entities WHERE row = ?", (row,)).fetchone(), None)
    _delete(connection, meta, "forms", "key = ? AND row = ?", set(_form_rows([(row, entity)])))
    _delete(connection, meta, "types", "type = ? AND row = ?", set(_type_rows([(row, entity)])))
    _delete(connection, meta, *_vocabularies_of(connection, row))
    _delete(connection, meta, "entities", "row = ?", [(row,)])
    _delete(connection, meta, "added_vectors", "row = ?", [(row,)])
    connection.execute("INSERT INTO removed VALUES (?)", (row,))
    digest.note(connection, meta, +1, "removed", "row = ?", [(row,)])
    return entity


def _delete(
    connection: sqlite3.Connection, meta: dict[str, Any], table: str, where: str, keys: Collection[tuple]
) -> None:
    """Delete the rows of a table for which `where` holds with one of `keys`; none with two of them."""
    digest.note(connection, meta, -1, table, where, keys)
    connection.executemany(f"DELETE FROM {table} WHERE {where}", keys)


def _form_rows(batch: Iterable[tuple[int, Entity]]) -> Iterator[tuple[int, int]]:
    return ((alias_key(form), row) for row, entity in batch for form in (entity.name, *entity.aliases))


def _type_rows(batch: Iterable[tuple[int, Entity]]) -> Iterator[tuple[str, int]]:
    return ((kind, row) for row, entity in batch for kind in entity.types)


def _vocabularies_of(connection: sqlite3.Connection, row: int) -> tuple[str, str, list[tuple]]:
    """The table, a condition, and its parameters for each vocabulary that the entity at `row` has codes of."""
    found = schema.fetched(connection, f"{schema.CODES} AND row = ?", (row,))
    return "vocabularies", "vocabulary = ? AND row = ?", found


def _index_ids(connection: sqlite3.Connection) -> None:
    """Index the ids once they are all there: one sort, and no look-up per insertion."""
    try:
        connection.execute(schema.ENTITY_IDS)
    except sqlite3.IntegrityError:
        id, first, second = connection.execute(
            "SELECT id, MIN(row), MAX(row) FROM entities GROUP BY id HAVING COUNT(*) > 1 LIMIT 1"
        ).fetchone()
        raise PelError(
            f'The id "{id}" comes twice, as entity {first + 1} and as entity {second + 1}; give each its own id.'
        ) from None


def _write_retired(connection: sqlite3.Connection, retired: Iterable[tuple[str, str]] | Mapping[str, str]) -> int:
    connection.executemany("INSERT OR REPLACE INTO retired VALUES (?, ?)", _pairs(retired))
    known = "SELECT id FROM entities"
    connection.execute(f"DELETE FROM retired WHERE id IN ({known}) OR successor NOT IN ({known})")
    return _count(connection, "retired")


def _pairs(retired: Iterable[Any] | Mapping[str, str]) -> Iterator[Any]:
    for one in retired.items() if isinstance(retired, Mapping) else retired:
        if not isinstance(one, tuple | list) or len(one) != 2 or not all(map(is_text, one)):
            raise PelError(
                f'retired: {named(one)} is no pair of ids; give (old id, successor), such as ("C02", "C01").'
            )
        yield one


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
