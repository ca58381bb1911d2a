"""The knowledge base: a folder with entity records and, once indexed, their vectors."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import PelError
from ..files.folders import check_replaceable, left_aside, new_folder
from .entity import Entity
from .index.edits import Changes
from .index.vectors import VectorIndex, auto_type
from .names.alias_to_cuis import AliasToCuis
from .names.name_index import NameIndex
from .records import writing
from .records.store import EntityStore

__all__ = ["Entity", "KnowledgeBase"]

Metric = Literal["cosine", "dot"]
ENTITIES = "entities.sqlite"
VECTORS = "vectors-{}.faiss"
FILES = (ENTITIES, VECTORS.split("{")[0])
NO_ROWS = np.empty(0, dtype=np.int64)
VECTORS_META = ("dim", "metric", "index_type", "fingerprint", "vectors")


class KnowledgeBase(Mapping[str, Entity]):
    """A KB folder, opened to be looked up and searched. As a mapping it goes from ids to entities, in row order.

    Rows number the entities, in `entities.sqlite` as in the vector file, which is memory-mapped: from 0, without gaps
    but for those that removed entities leave until the KB is compacted. A KB can be used from several threads and from
    forked processes; what another process adds or removes is seen at the next search. It pickles as its path.

    path (Path): The folder, written by `KnowledgeBase.create` or `build-kb`.
    RAISES: `PelError` where the folder is none, or one of its files is missing, truncated or foreign.
    """

    # What `Mapping` would do compares all items, two look-ups for each of millions of entities.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        if not self.path.exists() and (aside := left_aside(self.path)):
            raise PelError(
                f"{self.path}: there is no KB; {aside[-1]} is the one that a killed process was about to replace: "
                f"rename it back or build the KB again."
            )
        self._store = EntityStore(self.path / ENTITIES)
        self.names = NameIndex(self._store)
        self._n_probe: int | None = None
        self._threads: int | None = None
        self._vectors = self._open_vectors()
        self._changes = self._read_changes()

    @classmethod
    def create(
        cls,
        path: str | Path,
        entities: Iterable[Entity],
        *,
        source: str = "",
        release: str = "",
        licence: str = "",
        retired: Iterable[tuple[str, str]] = (),
        overwrite: bool = False,
    ) -> KnowledgeBase:
        """Build a KB folder without vectors at `path` and open it. It appears at once, or not at all.

        source, release, licence (str): Notes kept in `meta`.
        retired: (old id, successor) pairs, read after the entities; those whose successor is an entity are kept.
        overwrite (bool): Replace a KB that is there already.
        RAISES: `PelError` for no entities, an id that comes twice, a KB at `path` without `overwrite`, or anything else
            at `path`, which is never replaced.
        """
        path = Path(path).absolute()
        check_replaceable(path, FILES)
        if path.exists() and not overwrite:
            raise PelError(
                f"{path}: is there already; choose another folder or replace it with --force (overwrite=True)."
            )
        with new_folder(path) as folder:
            notes = {"source": source, "release": release, "licence": licence}
            EntityStore.create(folder / ENTITIES, entities, retired, **notes)
        return cls(path)

    @property
    def meta(self) -> dict[str, Any]:
        """Format version, source, release, licence and counts; with vectors also their file, size and SHA-256, `dim`,
        `metric`, `index_type` and the encoder's `fingerprint`."""
        return self._store.meta

    @property
    def n_rows(self) -> int:
        """One more than the last row."""
        return self.meta["rows"]

    @property
    def live_rows(self) -> np.ndarray:
        """The rows (n,) that have an entity, ascending: all of `range(n_rows)` before the first removal."""
        return self._changes.live(self.n_rows)

    @property
    def has_vectors(self) -> bool:
        return "vectors" in self.meta

    @property
    def fingerprint(self) -> str | None:
        """Names the encoder that made the vectors; None without vectors."""
        return self.meta.get("fingerprint")

    @property
    def dim(self) -> int | None:
        return self.meta.get("dim")

    @property
    def metric(self) -> Metric | None:
        """Both are searched by inner product; vectors for "cosine" have unit length."""
        return self.meta.get("metric")

    @property
    def n_added(self) -> int:
        """Entities added since the vectors were written to their file."""
        return len(self._changes.added)

    @property
    def n_removed(self) -> int:
        """Rows that removed entities have left empty."""
        return len(self._changes.removed)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of the entities and the current vectors."""
        return (self.path / ENTITIES).stat().st_size + self.meta.get("vectors", {}).get("size", 0)

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[str]:
        return self._store.all_ids()

    def __getitem__(self, id: str) -> Entity:
        entity = self._store.get(id) if isinstance(id, str) else None
        if entity is None:
            raise KeyError(id)
        return entity

    def entities(self) -> Iterator[Entity]:
        """Every entity in row order, streamed."""
        return self._store.entities()

    @property
    def cui_to_entity(self) -> Mapping[str, Entity]:
        """The KB itself, from ids to entities, as scispaCy calls it."""
        return self

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """From a name or alias, as it is written, to the ids of the entities that have it, as scispaCy calls it."""
        return AliasToCuis(self)

    def rows(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of those `ids` that the KB has."""
        return self._store.rows(ids)

    def ids(self, rows: np.ndarray) -> np.ndarray:
        """The ids at `rows` (integers of any shape), an object array of that shape with "" for row -1 and for the rows
        of removed entities.

        RAISES: `IndexError` for a row that the KB never had.
        """
        unique, inverse = np.unique(rows, return_inverse=True)
        n_rows = self._store.latest["rows"]
        if unique.size and not -1 <= unique[0] <= unique[-1] < n_rows:
            raise IndexError(f"Rows from {unique[0]} to {unique[-1]}, the KB has rows 0 to {n_rows - 1}.")
        ids = self._store.ids(unique.tolist())
        return np.array([ids.get(row, "") for row in unique.tolist()], dtype=object)[inverse].reshape(np.shape(rows))

    def named(self, form: str) -> list[Entity]:
        """The entities that have `form` as name or alias, case, punctuation and white space aside, in row order."""
        return self._store.named(form)

    def rows_of_types(self, types: Iterable[str]) -> np.ndarray:
        """The rows (n,) of the entities that have any of `types`, ascending; kept until the KB changes.

        RAISES: `PelError` for a type that no entity has.
        """
        wanted = frozenset(types)
        if wanted not in self._rows_of_types:
            found = {kind: self._store.rows_of_type(kind) for kind in sorted(wanted)}
            if unknown := [kind for kind, rows in found.items() if not len(rows)]:
                known = ", ".join(list(self._store.type_counts())[:10])
                raise PelError(f'{self.path}: no entity has the type "{unknown[0]}"; the commonest types are {known}.')
            self._rows_of_types[wanted] = np.unique(np.concatenate([NO_ROWS, *found.values()]))
        return self._rows_of_types[wanted]

    def with_type_names(self, entity: Entity) -> Entity:
        """`entity`, which the encoder is to read as it reads the KB's own: with the names that the KB has for types."""
        names = self.meta.get("type_names")
        if not names or entity.type_names:
            return entity
        return replace(entity, type_names=tuple(names.get(kind, kind) for kind in entity.types))

    def type_counts(self) -> dict[str, int]:
        """How many entities each type has, the commonest first."""
        return self._store.type_counts()

    def source_counts(self) -> dict[str, int]:
        """How many entities came from each source (of "A+B" each part counts), the commonest first. Reads all."""
        return self._store.source_counts()

    def successors(self, ids: Iterable[str] | None = None) -> dict[str, str]:
        """The entity that took the place of each of those `ids`, or of all, that its source has retired."""
        return self._store.successors(ids)

    def same_concepts(self) -> np.ndarray:
        """Pairs (n, 2) of the rows of entities that the KB marks as the same concept: the `xrefs` of the first name the
        id of the second."""
        return self._store.same_concepts()

    def index(
        self,
        blocks: Iterable[np.ndarray],
        *,
        dim: int,
        metric: Metric,
        fingerprint: str,
        index_type: str = "auto",
    ) -> None:
        """Give the KB vectors, in place of those it has. Killed or failing at any moment, this leaves the KB as it was.

        blocks (Iterable[ndarray]): (n, dim) float32 each, all together one vector per entity in row order.
        fingerprint (str): Names the encoder that made them.
        index_type (str): "flat" for exact search, what faiss's `index_factory` takes, or "auto": exact for small KBs,
            compressed for large ones (`vector_index.auto_type`).
        RAISES: `PelError` for an index type that faiss refuses, vectors that are not finite, of another shape or not as
            many as there are entities, and where the folder cannot be written or is being indexed by another process.
        """
        if metric not in ("cosine", "dot"):
            raise PelError(f'metric: "{metric}" is not known; use "cosine" or "dot".')
        with self._store.change() as (connection, meta):
            chosen = auto_type(meta["counts"]["entities"], dim) if index_type == "auto" else index_type
            self._write_vectors(meta, blocks, dim, chosen)
            meta.update(dim=dim, metric=metric, index_type=chosen, fingerprint=fingerprint)
            writing.renumber_rows(connection, meta)  # last: from here on nobody else can read
        self._reopen()

    def add(
        self, entities: Sequence[Entity], vectors: np.ndarray | None = None, fingerprint: str | None = None
    ) -> None:
        """Add new entities in one transaction: killed or failing at any moment, this leaves the KB as it was.

        vectors (n, dim): Where the KB has vectors, those of `entities`, by the encoder that `fingerprint` names.
        RAISES: `PelError` for ids that come twice or are in the KB, vectors that are missing, not finite or of another
            shape or encoder, and where another process is changing the KB.
        """
        self._change(entities, vectors, fingerprint)

    def update(
        self, entities: Sequence[Entity], vectors: np.ndarray | None = None, fingerprint: str | None = None
    ) -> None:
        """Put `entities` in the place of those with the same ids, as `add` does. RAISES: `PelError` as `add`, and for
        an id that is not in the KB."""
        self._change(entities, vectors, fingerprint, replaced=[entity.id for entity in entities])

    def remove(self, ids: Iterable[str]) -> None:
        """Remove entities in one transaction. They are never found again. RAISES: `PelError` for an id that is not in
        the KB, and where none would be left."""
        with self._store.change() as (connection, meta):
            writing.remove(connection, meta, list(ids))
            if not meta["counts"]["entities"]:
                raise PelError(f"{self.path}: these are all its entities; one must stay.")
        self._reopen()

    def compact(self) -> None:
        """Write the vectors of all entities to one file, without the removed and with the added ones, and close the
        gaps in the rows: after many changes the search is then as fast as before them. Where the KB is open elsewhere,
        it has to be opened again. RAISES: `PelError` where another process has just changed or indexed it."""
        self._notice_changes()
        with self._store.change() as (connection, meta):
            if meta != self.meta:
                raise PelError(f"{self.path}: has changed since it was opened; open the KB again and repeat.")
            if self._vectors is not None:
                self._write_vectors(meta, self.vector_blocks(), self._vectors.dim, meta["index_type"])
            writing.renumber_rows(connection, meta)
        self._reopen()

    def drop_vectors(self) -> None:
        """Leave the KB with its entities only, as before `index`: for vectors that no encoder fits any more."""
        if self.has_vectors:
            with self._store.change() as (connection, meta):
                connection.execute("DELETE FROM added")
                for key in VECTORS_META:
                    meta.pop(key, None)
            self._reopen()

    def search(self, queries: np.ndarray, k: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The `k` entities with the largest inner product for each of `queries` (q, dim) float32.

        within: The rows to search in, ascending, such as `rows_of_types` gives; None: all.
        RETURNS: scores (q, k) float32 and rows (q, k) int64, best first; row -1 and score -inf where k > len(kb).
        RAISES: `PelError` for a KB without vectors or queries of another dimension.
        """
        if self._vectors is None:
            raise PelError(
                f"{self.path}: the KB has no vectors; run `python -m spacy pel index PIPELINE {self.path} OUT` "
                f"or `linker.index()`."
            )
        self._notice_changes()
        return self._changes.search(self._vectors, queries, k, within)

    def similarities(self, query: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inner products (m,) float32 of `query` (d,) with the vectors of those of `rows` (n,), ascending, that an
        entity has now. RETURNS: these rows (m,) and the products. To be called after a `search`, which sees changes."""
        assert self._vectors is not None
        rows, vectors = self._changes.vectors_of(self._vectors, rows)
        return rows, vectors @ query

    def vector_blocks(self) -> Iterator[np.ndarray]:
        """The vectors of all entities, in blocks (n, dim) float32 of row order; none where the KB has none."""
        return iter(()) if self._vectors is None else self._changes.blocks(self._vectors)

    def copy_to(self, path: str | Path, *, vectors: bool = True) -> KnowledgeBase:
        """Copy the KB to the folder `path`, at once or not at all, and open the copy.

        A KB that is there already is replaced; whoever has it mapped keeps it. The KB's own folder is left as it is.

        vectors (bool): Copy the vectors too, if there are any.
        RAISES: `PelError` for anything else at `path`, or where the KB has changed since it was opened.
        """
        path = Path(path).absolute()
        if path.exists() and path.samefile(self.path):
            return self
        check_replaceable(path, FILES)
        self._notice_changes()
        with new_folder(path) as folder:
            keys = [key for key in self.meta if vectors or key not in VECTORS_META]
            self._store.copy_to(folder / ENTITIES, {key: self.meta[key] for key in keys}, vectors=vectors)
            if vectors and self.has_vectors:
                file = self.meta["vectors"]["file"]
                shutil.copyfile(self.path / file, folder / file)
        return type(self)(path)

    def close(self) -> None:
        """Close the files. A closed KB is of no more use."""
        self._store.close()
        self._vectors = None

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[Path]]:
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self)} entities)"

    def _change(
        self,
        entities: Sequence[Entity],
        vectors: np.ndarray | None,
        fingerprint: str | None,
        replaced: Sequence[str] = (),
    ) -> None:
        with self._store.change() as (connection, meta):
            self._check_added(meta, entities, vectors, fingerprint)
            if replaced:
                writing.delete_entities(connection, meta, replaced)
            writing.add(connection, meta, entities, vectors)
        self._reopen()

    def _check_added(
        self, meta: dict[str, Any], entities: Sequence[Entity], vectors: np.ndarray | None, fingerprint: str | None
    ) -> None:
        """Raise unless `vectors` are what the KB, as it is now on the disk, needs for `entities`."""
        if "vectors" not in meta:
            if vectors is not None:
                raise PelError(f"{self.path}: the KB has no vectors; add entities without, then index the KB.")
        elif vectors is None or vectors.shape != (len(entities), meta["dim"]):
            shape = "none" if vectors is None else f"the shape {vectors.shape}"
            raise PelError(f"Expected vectors of the shape ({len(entities)}, {meta['dim']}), got {shape}.")
        elif fingerprint != meta["fingerprint"]:
            raise PelError(
                f"{self.path}: its vectors are of another encoder than those to add; run `python -m spacy pel index`."
            )
        elif not np.isfinite(vectors).all():
            raise PelError("A vector to add is not finite; check the encoder's weights.")

    def _write_vectors(self, meta: dict[str, Any], blocks: Iterable[np.ndarray], dim: int, index_type: str) -> None:
        """Write `blocks` to a new file beside the present one, which goes once `_reopen` has turned to the new one."""
        replaced = meta.get("vectors", {}).get("file")
        self._remove_vectors(keep=replaced)
        path, count = self.path / _next_vectors(replaced), meta["counts"]["entities"]
        sha256 = VectorIndex.write(path, blocks, count=count, dim=dim, index_type=index_type)
        sample = VectorIndex.sample_digest(path)
        size = path.stat().st_size
        meta["vectors"] = {"file": path.name, "rows": count, "size": size, "sha256": sha256, "sample": sample}

    def _reopen(self) -> None:
        """Turn to the files as they are after a change, and remove those that it has replaced."""
        self._vectors = self._open_vectors()
        self._changes = self._read_changes()
        self._remove_vectors(keep=self.meta.get("vectors", {}).get("file"))

    def _read_changes(self) -> Changes:
        self._rows_of_types: dict[frozenset[str], np.ndarray] = {}
        return Changes(self._store.removed_rows(), *self._store.added_vectors(self.dim or 0))

    def set_search(self, *, n_probe: int | None = None, threads: int | None = None) -> None:
        """How to search: the cells that are visited of an index that has cells (None: as it was built), and the threads
        used (None: as many as faiss takes)."""
        self._n_probe, self._threads = n_probe, threads
        if self._vectors is not None:
            self._vectors.n_probe, self._vectors.threads = n_probe, threads

    def _notice_changes(self) -> None:
        """Take over what another process has added or removed; not other vectors, which may be of another encoder."""
        latest = self._store.latest_meta()
        if latest != self.meta and latest.get("vectors") == self.meta.get("vectors"):
            self._store.meta = latest
            self._changes = self._read_changes()

    def _open_vectors(self) -> VectorIndex | None:
        if not self.has_vectors:
            return None
        recorded = self.meta["vectors"]
        path, size = self.path / recorded["file"], recorded["size"]
        try:
            if not path.is_file():
                raise PelError(f"{path}: the file is missing")
            if path.stat().st_size != size:  # before it is mapped: reading past the end of a mapped file is fatal
                raise PelError(f"{path}: has {path.stat().st_size} bytes instead of {size}")
            vectors = VectorIndex.open(path)
            same_shape = (len(vectors), vectors.dim) == (recorded["rows"], self.dim)
            if not same_shape or VectorIndex.sample_digest(path) != recorded.get("sample"):
                raise PelError(f"{path}: holds the vectors of another KB")
        except PelError as error:
            raise PelError(f"{error}; {self._store.remedy()}") from error
        vectors.n_probe, vectors.threads = self._n_probe, self._threads
        return vectors

    def _remove_vectors(self, keep: str | None) -> None:
        """Remove the vector files, whole or in part, that killed processes left."""
        for path in self.path.glob(VECTORS.format("*") + "*"):
            if path.name != keep:
                path.unlink()


def _next_vectors(name: str | None) -> str:
    number = int(name.split("-")[1].split(".")[0]) if name else 0
    return VECTORS.format(number + 1)
