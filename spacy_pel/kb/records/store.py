"""The records of a KB and its `meta`, read from their SQLite file, and changed in transactions."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError
from ..damage import damage, damage_named
from ..entity import Entity, is_text
from ..names import files as name_files
from ..names.normal_form import alias_key, normalized
from ..numbering import EntityRows
from ..stored_files import changed, copy_file
from . import digest, opening, schema, writing
from .connections import Answer, Connections
from .groups import Groups
from .remedy import change_errors, read_errors
from .schema import entity_of, fetched, read_meta

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


class _Present(NamedTuple):
    meta: dict[str, Any]
    groups: Groups


class RecordStore:
    """The records and the `meta` of a KB, read from an SQLite file.

    Every process and thread has a connection of its own; one that a fork inherited is never touched. Look-ups hold no
    lock once they return.

    Attributes:
        path: The file.
        latest: As the last look-up found it.
        groups_seen: See `Groups`.

    Raises:
        PelError: The file is missing, truncated, of another format, replaced since it was opened, or its entities were
            numbered anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.latest: dict[str, Any] = {}
        self.groups_seen: set[tuple[str, str]] = set()
        self._present = _Present({}, self._groups({}))
        self._numbered_here: int | None = None
        self._place: tuple[int, int] | None = None
        self._connections = Connections(self._connect, self._notice)
        self.adopt(self.latest_meta())

    @classmethod
    def create(
        cls,
        path: Path,
        entities: Iterable[Entity],
        retired: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        **notes: str,
    ) -> None:
        """Write `entities`, numbered from row 0 in their order, and a `meta` with `notes` to a new file at `path`.

        Args:
            path: The new file.
            entities: At least one.
            retired: (old id, successor) pairs, or a dict of them, read after the entities. Those whose successor is no
                entity, and those whose old id is one, are left out.
            notes: Texts to keep in `meta`.

        Raises:
            PelError: There are no entities, or an id comes twice.
        """
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                writing.build(path.parent, connection, entities, retired, notes)
        except sqlite3.Error as error:
            raise PelError(f"{path}: cannot be written ({error}); check the disk and the records.") from error

    @property
    def meta(self) -> dict[str, Any]:
        """As it was when the file was opened, or adopted here."""
        return self._present.meta

    @property
    def groups(self) -> Groups:
        """Entities by types and vocabularies, as they were when the file was opened, or adopted here."""
        return self._present.groups

    def __len__(self) -> int:
        return self.meta["counts"]["entities"]

    def latest_meta(self) -> dict[str, Any]:
        """The `meta` as it is in the file now."""
        self._fetch("SELECT 1", ())
        return self.latest

    def get(self, id: str) -> Entity | None:
        """The record of `id`, by its index."""
        found = self._fetch("SELECT * FROM entities WHERE id = ?", (id,))
        entity = self._entity(found[0]) if found else None
        if entity and entity.id != id:
            raise PelError(damage(self.path, f'under the id "{id}" it has "{entity.id}"'))
        return entity

    def get_many(self, ids: Iterable[str]) -> dict[str, Entity]:
        """The records of those `ids` that are known."""
        found = map(self._entity, self._select("*", "id", filter(is_text, dict.fromkeys(ids))))
        return {entity.id: entity for entity in found}

    def entities(self) -> Iterator[Entity]:
        """Every record in row order, read in batches."""
        return map(self._entity, self._scan("*"))

    def all_ids(self) -> Iterator[str]:
        """Every id in row order, read in batches."""
        return (id for (id,) in self._scan("id"))

    def rows(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of those `ids` that are known."""
        return dict(self._select("id, row", "id", filter(is_text, dict.fromkeys(ids))))

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

    def rows_of_keys(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """The rows of the entities with a name of each of those `alias_key`s that any has."""
        found: dict[int, list[int]] = {}
        for key, row in self._select("key, row", "key", keys, table="forms"):
            found.setdefault(key, []).append(row)
        return found

    def written_names(self, rows: Iterable[int]) -> dict[int, list[str]]:
        """The name and the aliases, as they are written, of the entities at those `rows` that are there."""
        found = self._select("row, name, aliases", "row", rows)
        with damage_named(self.path):
            return {row: [name, *json.loads(aliases)] for row, name, aliases in found}

    def name_arrays(self) -> dict[str, bytes]:
        """The arrays of the index of names, as the tables hold them: see `names.tables.write_arrays`."""
        return dict(self._fetch("SELECT key, value FROM name_arrays", ()))

    def postings(self, grams: Iterable[int]) -> dict[int, np.ndarray]:
        """The numbers (n,) int32 of the names that have each of those 3-grams."""
        found = self._select("gram, names", "gram", grams, table="postings")
        return {gram: np.frombuffer(blob, dtype="<i4") for gram, blob in found}

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
        return dict(self._select("id, successor", "id", filter(is_text, dict.fromkeys(ids)), table="retired"))

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
        return self._read(self._state)

    def adopt(self, meta: dict[str, Any]) -> None:
        """Take the `meta` of a `state` for the present one."""
        self._present = _Present(meta, self._groups(meta))

    def change(self, edit: Callable[[sqlite3.Connection, dict[str, Any]], object]) -> None:
        """Change the records and the `meta`.

        Readers go on meanwhile, and at its end the change waits for those who are reading then, see `opening.commit`. A
        second writer waits `LOCK_SECONDS`, then is refused. The next `state` has the change.

        Args:
            edit: Called with a connection and a fresh `meta`, both of the present format, whatever the file was. What
                it changes is committed as one transaction when it returns, and dropped when it raises.

        Raises:
            PelError: Another process changes the KB, or reads it for too long, or the file cannot be written.
        """
        with change_errors(self.path):
            begun, connection = monotonic(), self._connect(writable=True)
            try:  # a context manager could be interrupted between its parts
                connection.execute(f"PRAGMA cache_spill = {schema.ALL_PAGES}")
                connection.execute("BEGIN IMMEDIATE")
                meta = opening.read_meta(self.path, connection)
                schema.upgrade(connection, meta)
                self._remove_others(meta)  # what a killed process left
                edit(connection, meta)
                schema.write_meta(connection, meta)
                self._numbered_here = meta["numbering"]
                opening.commit(connection, begun)
            except BaseException:
                if connection.in_transaction:
                    self._numbered_here = None
                    connection.execute("ROLLBACK")
                raise
            finally:
                connection.close()

    def if_undisturbed(self, do: Callable[[dict[str, Any]], object]) -> None:
        """Call `do` with the `meta`, which nobody changes meanwhile; not at all where somebody is about to."""
        with change_errors(self.path):
            connection = self._connect(writable=True)
            try:
                connection.execute("PRAGMA busy_timeout = 0")
                with suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN IMMEDIATE")
                if connection.in_transaction:
                    meta = opening.read_meta(self.path, connection)
                    self._remove_others(meta)
                    do(meta)
                    connection.execute("ROLLBACK")
            finally:
                connection.close()

    def copy_to(self, path: Path, indexes: Container[str]) -> None:
        """Write a consistent copy of the records to a new file at `path`, in the present format.

        Args:
            path: The new file.
            indexes: The fingerprints of the indexes to keep in `meta`, with the vectors of added entities for them.

        Raises:
            PelError: Another process has changed the KB since it was opened.
        """
        # Through SQLite: closing a plain file handle on the database would drop this process's locks on it.
        with read_errors(self.path), closing(self._connect()) as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)
            now = read_meta(copy)
            if now != self.meta:
                raise PelError(f"{self.path}: has changed since it was opened; open the KB again and repeat.")
            with copy:
                schema.upgrade(copy, now)
                for fingerprint in [one for one in now["indexes"] if one not in indexes]:
                    writing.forget_vectors(copy, now, fingerprint)
                    del now["indexes"][fingerprint]
                schema.write_meta(copy, now)
            if "file" in now.get("names", {}):
                copy_file(self.path.parent, path.parent, now["names"]["file"], name_files.FILE_NAME)

    def damage(self) -> list[str]:
        """Read the whole file, and say what is wrong with it. Nobody can change it meanwhile."""
        found = self._read(self._damage)
        file = self.latest.get("names", {}).get("file")
        with damage_named(self.path):
            problem = file and changed(self.path.parent, file, name_files.FILE_NAME)
        return [*found, problem] if problem else found

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of the records and of the index of their names."""
        opening.check_there(self.path)
        return self.path.stat().st_size + self.meta.get("names", {}).get("file", {}).get("size", 0)

    @property
    def has_hashes(self) -> bool:
        """Whether `damage` can tell that records have changed: older versions of spacy-pel wrote no hashes."""
        return digest.HASHES in self.meta

    def close(self) -> None:
        """Close the connections of this process."""
        self._connections.close()

    def _remove_others(self, meta: dict[str, Any]) -> None:
        name_files.remove_others(self.path.parent, meta.get("names", {}).get("file"))

    def _state(self, connection: sqlite3.Connection) -> State:
        meta = opening.read_meta(self.path, connection)
        removed = np.array(schema.removed_rows(connection), dtype=np.int64)
        return State(meta, EntityRows(removed), schema.added_vectors(connection, meta))

    def _damage(self, connection: sqlite3.Connection) -> list[str]:
        found = [text for (text,) in fetched(connection, "PRAGMA integrity_check") if text != "ok"]
        problems = [f"{self.path}: SQLite finds that its file is damaged: {found[0]}"] if found else []
        tables = digest.changed_tables(connection, opening.read_meta(self.path, connection))
        return [*problems, *(f'{self.path}: the table "{one}" is not as spacy-pel has written it' for one in tables)]

    def _scan(self, columns: str) -> Iterator[tuple]:
        """All records, no entity twice: what changes meanwhile gets a row behind those that are read.

        Raises:
            PelError: At the end, where an entity may have moved there before it was read.
        """
        query = f"SELECT {columns} FROM entities WHERE row >= ? AND row < ? ORDER BY row"
        before, n_read = self.latest_meta(), 0
        for start in range(0, before["rows"], PARAMETERS):
            batch = self._fetch(query, (start, min(start + PARAMETERS, before["rows"])))
            n_read += len(batch)
            yield from batch
        has_moved = any(self.latest[key] != before[key] for key in ("rows", "numbering"))
        if has_moved and n_read != before["counts"]["entities"]:
            raise PelError(f"{self.path}: has changed while it was read, and entities may be missing; repeat.")

    def _entity(self, record: tuple) -> Entity:
        try:
            with damage_named(self.path):
                return entity_of(record, self.latest.get("type_names"))
        except PelError as error:
            raise PelError(damage(self.path, error)) from error

    def _select(self, columns: str, key: str, values: Iterable[Any], table: str = "entities") -> Iterator[tuple]:
        remaining = iter(values)
        while batch := list(islice(remaining, PARAMETERS)):
            marks = ", ".join("?" * len(batch))
            yield from self._fetch(f"SELECT {columns} FROM {table} WHERE {key} IN ({marks})", batch)

    def _fetch(self, query: str, parameters: Sequence[Any]) -> list[tuple]:
        return self._read(lambda connection: fetched(connection, query, parameters))

    def _read(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What `ask` reads at one moment of the file, once the changes of the file have been noticed."""
        with read_errors(self.path):
            try:
                return self._connections.read(ask)
            except sqlite3.OperationalError as error:
                if "readonly" not in str(error) or not opening.roll_back(self.path):
                    raise
                return self._connections.read(ask)  # now that what a killed writer left is rolled back

    def _groups(self, meta: dict[str, Any]) -> Groups:
        return Groups(self.path.parent, self._fetch, self.groups_seen, indexed=schema.has_vocabularies(meta))

    def _connect(self, *, writable: bool = False) -> sqlite3.Connection:
        place = opening.place(self.path)
        connection = opening.connect(self.path, writable=writable)
        try:
            build, self._place = opening.read_meta(self.path, connection)["build"], self._place or place
            same_file = self._place == place == opening.place(self.path)
            if not same_file or build != self.meta.get("build", build):  # a copy of a KB has the same build
                raise PelError(f"{self.path}: another KB has taken its place since it was opened; open the KB again.")
        except BaseException:
            connection.close()
            raise
        return connection

    def _notice(self, connection: sqlite3.Connection) -> None:
        meta = opening.read_meta(self.path, connection)
        if meta["numbering"] not in (self.meta.get("numbering", meta["numbering"]), self._numbered_here):
            raise PelError(f"{self.path}: its entities were numbered anew since it was opened; open the KB again.")
        if meta != self.latest:
            self.latest = meta
