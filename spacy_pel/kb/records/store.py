"""The records of a KB and its `meta`, read from their SQLite file, and changed in transactions."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError
from ..entity import Entity
from ..names.normal_form import alias_key, distinct_forms, normalized
from ..numbering import EntityRows, no_rows
from . import schema, writing
from .schema import APPLICATION_ID, FORMAT_VERSION, READABLE, entity_of, pragma, read_meta

LOCK_SECONDS = 10.0
PARAMETERS = 900  # of a query: SQLite before 3.32 takes 999


class State(NamedTuple):
    """What a KB's file holds beside the records, at one moment.

    Attributes:
        meta: Of the KB.
        removed: (r,) the rows that removed entities left empty, ascending.
        added: (fingerprint, row, vector) of the vectors of added entities, by row and number.
    """

    meta: dict[str, Any]
    removed: EntityRows
    added: list[tuple[str, int, bytes]]

    def vectors_of(self, fingerprint: str, dim: int) -> tuple[EntityRows, np.ndarray]:
        """The vectors (a, dim) of added entities for one index, and their owners (a,), ascending."""
        own = [(row, vector) for index, row, vector in self.added if index == fingerprint]
        vectors = np.frombuffer(b"".join(vector for _, vector in own), dtype="<f4").reshape(len(own), dim)
        return EntityRows(np.array([row for row, _ in own], dtype=np.int64)), vectors


class RecordStore:
    """The records and the `meta` of a KB, read from an SQLite file.

    Every process and thread has a connection of its own; one that a fork inherited is never touched. Look-ups hold no
    lock once they return.

    Attributes:
        path: The file.
        meta: As it was when the file was opened, or changed or adopted here.
        latest: As the last look-up found it.

    Raises:
        PelError: The file is missing, truncated, of another format, replaced since it was opened, or its entities were
            numbered anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meta: dict[str, Any] = {}
        self._rows_of_types: dict[frozenset[str], EntityRows] = {}
        self.latest: dict[str, Any] = {}
        self._connections: dict[tuple[int, int], sqlite3.Connection] = {}
        self._versions: dict[tuple[int, int], int] = {}
        with self._readable():
            self.meta = self.latest = read_meta(self._connection())

    @classmethod
    def create(
        cls, path: Path, entities: Iterable[Entity], retired: Iterable[tuple[str, str]] = (), **notes: str
    ) -> None:
        """Write `entities`, numbered from row 0 in their order, and a `meta` with `notes` to a new file at `path`.

        Args:
            path: The new file.
            entities: At least one.
            retired: (old id, successor) pairs, read after the entities. Those whose successor is no entity, and those
                whose old id is one, are left out.
            notes: Texts to keep in `meta`.

        Raises:
            PelError: There are no entities, or an id comes twice.
        """
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                writing.build(connection, entities, retired, notes)
        except sqlite3.Error as error:
            raise PelError(f"{path}: cannot be written ({error}); check the disk and the records.") from error

    def __len__(self) -> int:
        return self.meta["counts"]["entities"]

    def latest_meta(self) -> dict[str, Any]:
        """The `meta` as it is in the file now."""
        self._fetch("SELECT 1", ())
        return self.latest

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

    def ids_at(self, rows: EntityRows) -> np.ndarray:
        """The ids at `rows`, of any shape. See `KnowledgeBase.ids`."""
        unique, inverse = np.unique(rows, return_inverse=True)
        n_rows = self.latest["rows"]
        if unique.size and not -1 <= unique[0] <= unique[-1] < n_rows:
            raise IndexError(f"Rows from {unique[0]} to {unique[-1]}, the KB has rows 0 to {n_rows - 1}.")
        ids = dict(self._select("row, id", "row", unique.tolist()))
        return np.array([ids.get(row, "") for row in unique.tolist()], dtype=object)[inverse].reshape(np.shape(rows))

    def named(self, form: str) -> list[Entity]:
        """The entities with a name or alias that equals `form` once both are normalised, in row order."""
        query = "SELECT entities.* FROM forms JOIN entities USING (row) WHERE key = ? ORDER BY row"
        wanted = normalized(form)
        found = map(self._entity, self._fetch(query, (alias_key(form),)))
        return [e for e in found if wanted in map(normalized, (e.name, *e.aliases))]  # keys may collide

    def rows_named(self, form: str) -> EntityRows:
        """The rows of the entities that `named` gives, but for collisions of keys."""
        found = self._fetch("SELECT row FROM forms WHERE key = ? ORDER BY row", (alias_key(form),))
        return EntityRows(np.array([row for (row,) in found], dtype=np.int64))

    def names(self, rows: Iterable[int]) -> dict[int, list[str]]:
        """The `distinct_forms` of the entities at those `rows` that are there."""
        found = self._select("row, name, aliases", "row", rows)
        return {row: distinct_forms(name, json.loads(aliases)) for row, name, aliases in found}

    def name_arrays(self) -> dict[str, bytes]:
        """What `names.tables.write_names` has written, but for the postings."""
        return dict(self._fetch("SELECT key, value FROM name_arrays", ()))

    def postings(self, grams: Iterable[int]) -> dict[int, np.ndarray]:
        """The numbers (n,) int32 of the names that have each of those 3-grams."""
        found = self._select("gram, names", "gram", grams, table="postings")
        return {gram: np.frombuffer(blob, dtype="<i4") for gram, blob in found}

    def rows_of_types(self, types: frozenset[str]) -> EntityRows:
        """The rows (n,) of the entities that have any of `types`, ascending; kept until `adopt`.

        Raises:
            PelError: No entity has one of the types.
        """
        kept = self._rows_of_types
        if types not in kept:
            found = {kind: self._rows_of_type(kind) for kind in sorted(types)}
            if unknown := [kind for kind, rows in found.items() if not len(rows)]:
                known = ", ".join(list(self.type_counts())[:10])
                raise PelError(
                    f'{self.path.parent}: no entity has the type "{unknown[0]}"; the commonest types are {known}.'
                )
            kept[types] = EntityRows(np.unique(np.concatenate([no_rows(), *found.values()])))
        return kept[types]

    def _rows_of_type(self, kind: str) -> EntityRows:
        found = self._fetch("SELECT row FROM types WHERE type = ? ORDER BY row", (kind,))
        return EntityRows(np.fromiter((row for (row,) in found), dtype=np.int64, count=len(found)))

    def type_counts(self) -> dict[str, int]:
        """How many entities each type has, the commonest first."""
        return dict(self._fetch("SELECT type, COUNT(*) FROM types GROUP BY type ORDER BY COUNT(*) DESC, type", ()))

    def source_counts(self) -> dict[str, int]:
        """How many entities came from each source (of "A+B" each part counts), the commonest first. Reads all."""
        counts: Counter[str] = Counter()
        for source, count in self._fetch("SELECT source, COUNT(*) FROM entities GROUP BY source", ()):
            counts.update(dict.fromkeys(source.split("+"), count))
        return dict(counts.most_common())

    def successors(self, ids: Iterable[str] | None = None) -> dict[str, str]:
        """What became of those `ids`, or of all, that are retired and have a successor in the KB."""
        if not self.meta["counts"].get("retired"):
            return {}
        if ids is None:
            return dict(self._fetch("SELECT id, successor FROM retired", ()))
        return dict(self._select("id, successor", "id", dict.fromkeys(ids), table="retired"))

    def same_concepts(self) -> EntityRows:
        """Pairs (n, 2) of the rows of two entities of which the first names the id of the second among its `xrefs`, as
        it is or as it was before the source retired it."""
        query = (
            "WITH named (row, id) AS (SELECT row, json_each.value FROM entities, json_each(xrefs) WHERE xrefs != '[]') "
            "SELECT named.row, b.row FROM named JOIN entities b USING (id) WHERE named.row != b.row UNION "
            "SELECT named.row, b.row FROM named JOIN retired USING (id) JOIN entities b ON b.id = successor "
            "WHERE named.row != b.row"
        )
        return EntityRows(np.array(self._fetch(query, ()), dtype=np.int64).reshape(-1, 2))

    def state(self) -> State:
        """What the file holds now beside the records, read at one moment."""
        with self._reading() as connection:
            meta = read_meta(connection)
            removed = np.array(schema.removed_rows(connection), dtype=np.int64)
            return State(meta, EntityRows(removed), schema.added_vectors(connection, meta))

    def adopt(self, meta: dict[str, Any]) -> None:
        """Take the `meta` of a `state` for the present one."""
        self.meta = meta
        self._rows_of_types = {}

    @contextmanager
    def change(self) -> Iterator[tuple[sqlite3.Connection, dict[str, Any]]]:
        """Yield a connection and a fresh `meta`, to change both.

        Both are of the present format, whatever the file was. The change is committed as one transaction when the
        block ends, and dropped when it raises. Readers go on meanwhile. A second writer waits `LOCK_SECONDS`, then is
        refused.
        """
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA query_only = OFF")
            try:
                connection.execute("BEGIN IMMEDIATE")
                meta = read_meta(connection)
                schema.upgrade(connection, meta)
                yield connection, meta
                schema.write_meta(connection, meta)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise PelError(
                    f"{self.path}: cannot be changed ({error}); make it writable, wait until no other process changes "
                    f"this KB, and run the command again."
                ) from error
        self.meta = self.latest = meta

    @contextmanager
    def undisturbed(self) -> Iterator[dict[str, Any] | None]:
        """Yield the `meta`, which nobody changes until the block ends, or None where somebody is about to."""
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                yield None
            else:
                yield read_meta(connection)

    def copy_to(self, path: Path, meta: dict[str, Any]) -> None:
        """Write a consistent copy of the records to a new file at `path`, in the present format.

        Args:
            path: The new file.
            meta: What it is to have. Vectors of added entities are kept for the indexes that it names.

        Raises:
            PelError: Another process has changed the KB since it was opened.
        """
        # Through SQLite: closing a plain file handle on the database would drop this process's locks on it.
        with closing(self._connect()) as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)
            now = read_meta(copy)
            if now != self.meta:
                raise PelError(f"{self.path}: has changed since it was opened; open the KB again and repeat.")
            with copy:
                schema.upgrade(copy, now)
                for fingerprint in now["indexes"].keys() - meta["indexes"].keys():
                    writing.forget_vectors(copy, fingerprint)
                schema.write_meta(copy, meta | {"format_version": FORMAT_VERSION})

    def close(self) -> None:
        """Close the connections of this process."""
        for key in [key for key in self._connections if key[0] == os.getpid()]:
            self._connections.pop(key).close()
            self._versions.pop(key, None)

    def _scan(self, columns: str) -> Iterator[tuple]:
        query = f"SELECT {columns} FROM entities WHERE row >= ? AND row < ? ORDER BY row"
        for start in range(0, self.meta["rows"], PARAMETERS):
            yield from self._fetch(query, (start, start + PARAMETERS))

    def _entity(self, record: tuple) -> Entity:
        return entity_of(record, self.latest.get("type_names"))

    def _select(self, columns: str, key: str, values: Iterable[Any], table: str = "entities") -> Iterator[tuple]:
        remaining = iter(values)
        while batch := list(islice(remaining, PARAMETERS)):
            marks = ", ".join("?" * len(batch))
            yield from self._fetch(f"SELECT {columns} FROM {table} WHERE {key} IN ({marks})", batch)

    def _fetch(self, query: str, parameters: Sequence[Any]) -> list[tuple]:
        with self._reading() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read from, at one moment of the file, once its changes have been noticed."""
        with self._readable():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                self._notice_changes(connection)
                yield connection
            finally:
                connection.execute("COMMIT")

    def _notice_changes(self, connection: sqlite3.Connection) -> None:
        key, version = _here(), pragma(connection, "data_version")
        if self._versions.get(key) == version:
            return
        meta = read_meta(connection)
        if meta["numbering"] != self.meta["numbering"]:
            raise PelError(f"{self.path}: its entities were numbered anew since it was opened; open the KB again.")
        if meta != self.latest:
            self.latest = meta
        self._versions[key] = version

    def _connection(self) -> sqlite3.Connection:
        key = _here()
        if key not in self._connections:
            self._connections[key] = self._connect()
        return self._connections[key]

    def _connect(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise PelError(f"{self.path}: the file is missing; {self.remedy()}")
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
            if pragma(connection, "application_id") != APPLICATION_ID:
                raise PelError(f"{self.path}: this is not the entity file of a KB; {self.remedy()}")
            size = pragma(connection, "page_count") * pragma(connection, "page_size")
            if self.path.stat().st_size < size:  # asked for second: another process may be adding pages
                raise PelError(f"{self.path}: the file is truncated; {self.remedy()}")
            meta = read_meta(connection)
        if meta.get("format_version") not in READABLE:
            raise PelError(
                f"{self.path}: format version {meta.get('format_version')}, this spacy-pel reads {FORMAT_VERSION}; "
                f"{self.remedy()}"
            )
        if meta["build"] != self.meta.get("build", meta["build"]):
            raise PelError(f"{self.path}: another KB has taken its place since it was opened; open the KB again.")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError) as error:
            raise PelError(
                f"{self.path}: cannot be read as the entity file of a KB ({error}); {self.remedy()}"
            ) from error

    def remedy(self) -> str:
        """What to do where this KB cannot be opened."""
        folder = self.path.parent
        pipeline = folder.parent.parent
        if folder.is_file():
            return f"{folder.name} is a file: build a KB from it with `python -m spacy pel build-kb {folder} kb`."
        if (folder / "config.cfg").is_file():
            return f"{folder.name} is a pipeline: name a KB folder that `python -m spacy pel build-kb` wrote."
        if (pipeline / "config.cfg").is_file():
            return f"index again with its KB folder: `python -m spacy pel index {pipeline} KB {pipeline} --force`."
        force = " --force" if folder.exists() else ""
        return f"build the KB with `python -m spacy pel build-kb SOURCE {folder}{force}`."


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()
