"""What the SQLite file of a KB holds: its tables, its versions, its `meta`, and an entity as a record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ...errors import PelError
from ..entity import Entity
from ..names import tables
from . import digest

FORMAT_VERSION = 4
READABLE = (2, 3, FORMAT_VERSION)  # 2 had no index of the names, 2 and 3 had one index of vectors at most
APPLICATION_ID = 0x7350454C  # "sPEL", in the header of the file

# A removed entity leaves its row empty and in `removed`. An added one takes a row behind all others and has its vectors
# in `added_vectors` until the KB is compacted: for each index, by its fingerprint, those of its encoder from number 0.
# `forms` and `types` lead from names (as `alias_key`) and types to rows, `vocabularies`, which older files lack, from
# those of the `xrefs`. The tables that lead from 3-grams to names are in `names.tables`.
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
ADDED = "CREATE TABLE added (row INTEGER PRIMARY KEY, vector BLOB NOT NULL)"  # in formats 2 and 3
VOCABULARIES = "CREATE TABLE vocabularies (vocabulary TEXT, row INTEGER, PRIMARY KEY (vocabulary, row)) WITHOUT ROWID"
CODES = (  # what that table holds; a web address is no code
    "SELECT DISTINCT substr(value, 1, instr(value, ':') - 1) AS vocabulary, row FROM entities, json_each(xrefs) "
    "WHERE instr(value, ':') > 1 AND substr(value, instr(value, ':') + 1, 2) NOT IN ('', '//')"
)
ENTITY_IDS = "CREATE UNIQUE INDEX entity_ids ON entities (id)"
# Changed pages that SQLite keeps in memory before it writes some to the file, which shuts readers out until the COMMIT.
ALL_PAGES, FEW_PAGES = 2**31 - 1, 1  # few: as many as its cache has
OLD_KEYS = ("vectors", "fingerprint", "dim", "metric", "index_type")  # of the index, in the meta of formats 2 and 3


class Object(NamedTuple):
    """A table or index as SQLite's own list has it, with single spaces in its SQL."""

    type: str
    name: str
    table: str
    sql: str


META = Object("table", "meta", "meta", "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")


def objects(connection: sqlite3.Connection) -> list[Object]:
    """All that an SQLite file has: tables, indexes, views and triggers."""
    found = fetched(connection, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
    return [Object(kind, name, table, " ".join((sql or "").split())) for kind, name, table, sql in found]


@cache
def expected_objects(format_version: int) -> tuple[frozenset[Object], frozenset[Object]]:
    """What a file of that format has, and what it may have besides: the vocabularies, and the index of the names."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(f"{SCHEMA}; {ENTITY_IDS}")
    if format_version != FORMAT_VERSION:
        connection.executescript(f"DROP TABLE added_vectors; {ADDED}")
    required = frozenset(objects(connection))
    connection.executescript(f"{VOCABULARIES}; {tables.SCHEMA}")
    return required, frozenset(objects(connection)) - required


def strange(found: list[Object], format_version: int) -> str | None:
    """What a file with those objects has and no KB of that format, or the other way round; None if all is well."""
    required, optional = expected_objects(format_version)
    others = [one for place, one in enumerate(found) if one not in required | optional or one in found[:place]]
    if others:
        return f'it has the {others[0].type} "{others[0].name}", which spacy-pel has not written'
    if missing := sorted(required.difference(found)):
        return f'it lacks the {missing[0].type} "{missing[0].name}"'
    return None


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """The `meta` of a file of any format that can be read, with its indexes as format 4 has them."""
    meta = {key: json.loads(value) for key, value in fetched(connection, "SELECT key, value FROM meta")}
    if "indexes" not in meta:
        old = {key: meta.pop(key, None) for key in OLD_KEYS}
        meta["indexes"] = {old["fingerprint"]: _index_of(old)} if old["vectors"] else {}
    return meta


def check_meta(meta: dict[str, Any]) -> None:
    """Raise `ValueError` unless the numbers and texts that a KB is opened by are there."""
    numbers = {"rows": meta["rows"], "numbering": meta["numbering"]} | meta["counts"]
    if odd := [key for key, value in numbers.items() if type(value) is not int or value < 0]:
        raise ValueError(f'meta has no number "{odd[0]}"')
    if not isinstance(meta["build"], str) or "entities" not in meta["counts"]:
        raise ValueError("meta lacks the build or the number of entities")
    if not all(isinstance(name, str) for name in meta.get("type_names", {}).values()):
        raise ValueError("meta has type_names that are no texts")
    for record in meta["indexes"].values():
        files = record["files"].values()
        texts = [record[key] for key in ("kind", "metric", "index_type")]
        texts += [file[key] for file in files for key in ("name", "sha256", "sample")]
        sizes = [record["dim"], record["count"], *(file["size"] for file in files)]
        if not all(isinstance(text, str) for text in texts) or not all(type(size) is int for size in sizes):
            raise ValueError("meta has an index whose description makes no sense")


def write_meta(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Put `meta`, with its hash, in the place of the present one."""
    digest.seal(meta)
    encoded = [(key, json.dumps(value, ensure_ascii=False)) for key, value in meta.items()]
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", encoded)


def upgrade(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    """Bring the tables of a file of format 2 or 3, and its `meta`, to format 4, and add the vocabularies and the hashes
    where there are none.

    To hash the tables reads all of them, once.
    """
    if meta["format_version"] != FORMAT_VERSION:
        connection.execute(ADDED_VECTORS)
        for fingerprint in meta["indexes"]:
            connection.execute("INSERT INTO added_vectors SELECT row, ?, 0, vector FROM added", (fingerprint,))
        connection.execute("DROP TABLE added")
        meta["format_version"] = FORMAT_VERSION
    if not has_vocabularies(meta):
        connection.execute("DROP TABLE IF EXISTS vocabularies")
        write_vocabularies(connection)
        if digest.HASHES in meta:
            digest.count_again(connection, meta, ("vocabularies",))
    if digest.HASHES not in meta:
        digest.count_again(connection, meta)


def has_vocabularies(meta: dict[str, Any]) -> bool:
    """Whether there is a table of the vocabularies that entities have codes of."""
    return "vocabularies" in meta.get(digest.HASHES, {})


def write_vocabularies(connection: sqlite3.Connection) -> None:
    """Make the table of the vocabularies that all entities have codes of."""
    connection.execute(VOCABULARIES)
    connection.execute(f"INSERT INTO vocabularies {CODES} ORDER BY vocabulary, row")


def added_vectors(connection: sqlite3.Connection, meta: dict[str, Any]) -> list[tuple[str, int, bytes]]:
    """(fingerprint, row, vector) of all vectors of added entities, by row and number, in a file of any format."""
    if meta["format_version"] == FORMAT_VERSION:
        query = "SELECT fingerprint, row, vector FROM added_vectors ORDER BY row, number"
        return fetched(connection, query)
    found = fetched(connection, "SELECT row, vector FROM added ORDER BY row")
    return [(fingerprint, row, vector) for fingerprint in meta["indexes"] for row, vector in found]


def removed_rows(connection: sqlite3.Connection) -> list[int]:
    """The rows that removed entities left empty, ascending."""
    return [row for (row,) in fetched(connection, "SELECT row FROM removed ORDER BY row")]


def pragma(connection: sqlite3.Connection, name: str) -> Any:
    """The value of an SQLite pragma."""
    return fetched(connection, f"PRAGMA {name}")[0][0]


def fetched(connection: sqlite3.Connection, query: str, parameters: Sequence[Any] = ()) -> list[tuple]:
    """All that a query finds. A cursor that is left amid its rows, in the traceback of an interrupt, would keep the
    lock on the file, even once its connection is closed."""
    return connection.execute(query, parameters).fetchall()


def record_of(row: int, entity: Entity) -> tuple:
    """The record of an entity in the table `entities`.

    Raises:
        PelError: It has no name.
    """
    e = entity
    if not e.name.strip():
        raise PelError(f'the entity "{e.id}" has no name; give every entity an "id" and a "name"')
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
