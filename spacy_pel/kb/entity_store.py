"""Entity records in one SQLite file, which also holds the `meta` of the KB and is thereby its commit point."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import PelError
from .counts import Counts

FORMAT_VERSION = 1
APPLICATION_ID = 0x7350454C  # "sPEL", in the header of the file
BATCH = 900  # rows a query: SQLite before 3.32 takes 999 parameters
LOCK_SECONDS = 10.0

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entities (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, aliases TEXT NOT NULL, types TEXT NOT NULL,
    definition TEXT NOT NULL, xrefs TEXT NOT NULL, source TEXT NOT NULL
);
CREATE TABLE retired (id TEXT PRIMARY KEY, successor TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Entity:
    """One record of a KB. `id` is what `ent.kb_id_` becomes; only `id` and `name` are required.

    `types` are what filters compare, `type_names` what the encoder reads in their place: one for each type, or none
    where the types are names already.

    RAISES: `PelError` for an id that a gold standard or a link could not be told from ("NIL", or one with a "|"), for a
        NUL character, and for more or fewer names than types.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    definition: str = ""
    xrefs: tuple[str, ...] = ()
    source: str = ""
    type_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.id == "NIL" or "|" in self.id:
            raise PelError(f'the id "{self.id}" means something else ("NIL": not in the KB, "A|B": A or B); rename it')
        texts = (self.id, self.name, self.definition, self.source, *self.aliases, *self.types, *self.xrefs)
        if "\0" in "".join(texts):
            raise PelError(f'"{self.id}" has a NUL character in its texts; remove it')
        if self.type_names and len(self.type_names) != len(self.types):
            raise PelError(f'"{self.id}" has {len(self.types)} types and {len(self.type_names)} names; name each type')


class EntityStore:
    """The records and the `meta` of a KB, read from `path` (an SQLite file).

    Every process and thread has a connection of its own; one that a fork inherited is never touched. Look-ups hold no
    lock once they return.

    RAISES: `PelError` where the file is missing, truncated, of another format, or replaced since it was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meta: dict[str, Any] = {}
        self._connections: dict[tuple[int, int], sqlite3.Connection] = {}
        with self._readable():
            self.meta = _read_meta(self._connection())

    @classmethod
    def create(
        cls, path: Path, entities: Iterable[Entity], retired: Iterable[tuple[str, str]] = (), **notes: str
    ) -> None:
        """Write `entities`, numbered from row 0 in their order, and a `meta` with `notes` to a new file at `path`.

        retired: (old id, successor) pairs, read after the entities. Those whose successor is no entity, and those whose
            old id is one, are left out.
        RAISES: `PelError` for no entities or for an id that comes twice.
        """
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                _write_store(connection, entities, retired, notes)
        except sqlite3.Error as error:
            raise PelError(f"{path}: cannot be written ({error}); check the disk and the records.") from error

    def __len__(self) -> int:
        return self.meta["counts"]["entities"]

    def get(self, id: str) -> Entity | None:
        """The record of `id`, by its index."""
        found = self._fetch("SELECT * FROM entities WHERE id = ?", (id,))
        return self._entity(found[0]) if found else None

    def entities(self) -> Iterator[Entity]:
        """Every record in row order, read in batches."""
        return map(self._entity, self._scan("*"))

    def all_ids(self) -> Iterator[str]:
        """Every id in row order, read in batches."""
        return (id for (id,) in self._scan("id"))

    def rows(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of those `ids` that are known."""
        return dict(self._select("id, row", "id", dict.fromkeys(ids)))

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """The ids at those `rows` that are there."""
        return dict(self._select("row, id", "row", rows))

    def successors(self, ids: Iterable[str]) -> dict[str, str]:
        """What became of those `ids` that are retired and have a successor in the KB."""
        if not self.meta["counts"].get("retired"):
            return {}
        return dict(self._select("id, successor", "id", dict.fromkeys(ids), table="retired"))

    @contextmanager
    def update_meta(self) -> Iterator[dict[str, Any]]:
        """Yield a fresh `meta` to change; the change is committed as one transaction when the block ends, and dropped
        when it raises. Readers go on meanwhile; a second writer is refused.
        """
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA query_only = OFF")
            try:
                connection.execute("BEGIN IMMEDIATE")
                meta = _read_meta(connection)
                yield meta
                _write_meta(connection, meta)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise PelError(
                    f"{self.path}: cannot be changed ({error}); make it writable, wait until no other process indexes "
                    f"this KB, and run the command again."
                ) from error
        self.meta = meta

    def copy_to(self, path: Path, meta: dict[str, Any]) -> None:
        """Write a consistent copy of the records, with this `meta`, to a new file at `path`.

        RAISES: `PelError` where another process has changed the KB since it was opened.
        """
        # Through SQLite: closing a plain file handle on the database would drop this process's locks on it.
        with closing(self._connect()) as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)
            if _read_meta(copy) != self.meta:
                raise PelError(f"{self.path}: has changed since it was opened; open the KB again and repeat.")
            with copy:
                _write_meta(copy, meta)

    def close(self) -> None:
        """Close the connections of this process."""
        for key in [key for key in self._connections if key[0] == os.getpid()]:
            self._connections.pop(key).close()

    def _scan(self, columns: str) -> Iterator[tuple]:
        query = f"SELECT {columns} FROM entities WHERE row >= ? AND row < ? ORDER BY row"
        for start in range(0, len(self), BATCH):
            yield from self._fetch(query, (start, start + BATCH))

    def _entity(self, record: tuple) -> Entity:
        _, id, name, aliases, types, definition, xrefs, source = record
        kinds, named = _load(types), self.meta.get("type_names")
        names = tuple(named.get(kind, kind) for kind in kinds) if named else ()
        return Entity(id, name, _load(aliases), kinds, definition, _load(xrefs), source, names)

    def _select(self, columns: str, key: str, values: Iterable[Any], table: str = "entities") -> Iterator[tuple]:
        remaining = iter(values)
        while batch := list(islice(remaining, BATCH)):
            marks = ", ".join("?" * len(batch))
            yield from self._fetch(f"SELECT {columns} FROM {table} WHERE {key} IN ({marks})", batch)

    def _fetch(self, query: str, parameters: Sequence[Any]) -> list[tuple]:
        with self._readable():
            return self._connection().execute(query, parameters).fetchall()

    def _connection(self) -> sqlite3.Connection:
        key = (os.getpid(), threading.get_ident())
        if key not in self._connections:
            self._connections[key] = self._connect()
        return self._connections[key]

    def _connect(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise PelError(f"{self.path}: the file is missing; {self._remedy()}")
        # Read-write, since SQLite must roll back what a killed writer left; `query_only` keeps everything else out.
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            timeout=LOCK_SECONDS,
            check_same_thread=False,  # `close` is called from one thread for all of them
        )
        try:
            connection.execute("PRAGMA query_only = ON")
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise unless `connection` is to a whole file of this format and to the KB that was opened first."""
        with self._readable():
            if _pragma(connection, "application_id") != APPLICATION_ID:
                raise PelError(f"{self.path}: this is not the entity file of a KB; {self._remedy()}")
            if self.path.stat().st_size < _pragma(connection, "page_count") * _pragma(connection, "page_size"):
                raise PelError(f"{self.path}: the file is truncated; {self._remedy()}")
            meta = _read_meta(connection)
        if meta.get("format_version") != FORMAT_VERSION:
            raise PelError(
                f"{self.path}: format version {meta.get('format_version')}, this spacy-pel reads {FORMAT_VERSION}; "
                f"{self._remedy()}"
            )
        if meta["build"] != self.meta.get("build", meta["build"]):
            raise PelError(f"{self.path}: another KB has taken its place since it was opened; open the KB again.")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError) as error:
            raise PelError(
                f"{self.path}: cannot be read as the entity file of a KB ({error}); {self._remedy()}"
            ) from error

    def _remedy(self) -> str:
        force = " --force" if self.path.parent.exists() else ""
        return f"build the KB with `python -m spacy pel build-kb SOURCE {self.path.parent}{force}`."


def _write_store(
    connection: sqlite3.Connection,
    entities: Iterable[Entity],
    retired: Iterable[tuple[str, str]],
    notes: dict[str, str],
) -> None:
    # A file that is not finished is thrown away, and a finished one synced by the caller: no journal needed.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.executescript(SCHEMA)
    connection.execute("BEGIN")
    counts = Counts()
    records = (_record(row, entity) for row, entity in enumerate(counts.count(entities)))
    connection.executemany("INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?, ?, ?)", records)
    if not counts.entities:
        raise PelError("There are no entities to build a KB from; give at least one.")
    _index_ids(connection)
    totals = counts.totals()
    if kept := _write_retired(connection, retired):
        totals["retired"] = kept
    meta = {"format_version": FORMAT_VERSION, "build": uuid.uuid4().hex, **notes, "counts": totals}
    _write_meta(connection, meta | ({"type_names": counts.type_names} if counts.type_names else {}))
    connection.execute("COMMIT")


def _write_retired(connection: sqlite3.Connection, retired: Iterable[tuple[str, str]]) -> int:
    connection.executemany("INSERT OR REPLACE INTO retired VALUES (?, ?)", retired)
    known = "SELECT id FROM entities"
    connection.execute(f"DELETE FROM retired WHERE id IN ({known}) OR successor NOT IN ({known})")
    return connection.execute("SELECT COUNT(*) FROM retired").fetchone()[0]


def _record(row: int, e: Entity) -> tuple:
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


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")}


def _write_meta(connection: sqlite3.Connection, meta: dict[str, Any]) -> None:
    encoded = [(key, json.dumps(value, ensure_ascii=False)) for key, value in meta.items()]
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", encoded)
