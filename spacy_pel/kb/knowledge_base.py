"""The knowledge base: a folder with entity records and, once indexed, their vectors."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import PelError
from .entity_store import Entity, EntityStore
from .folders import left_aside, new_folder
from .vector_index import VectorIndex

__all__ = ["Entity", "KnowledgeBase"]

Metric = Literal["cosine", "dot"]
ENTITIES = "entities.sqlite"
VECTORS = "vectors-{}.faiss"
VECTORS_META = ("dim", "metric", "index_type", "fingerprint", "vectors")


class KnowledgeBase(Mapping[str, Entity]):
    """A KB folder, opened to be looked up and searched. As a mapping it goes from ids to entities, in row order.

    Rows 0 … n-1 number the entities, in `entities.sqlite` as in the vector file, which is memory-mapped. A KB can be
    used from several threads and from forked processes; it pickles as its path.

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
        self._vectors = self._open_vectors()

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
        _check_replaceable(path)
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
    def size_bytes(self) -> int:
        """Bytes on disk of the entities and the current vectors."""
        return (self.path / ENTITIES).stat().st_size + self.meta.get("vectors", {}).get("size", 0)

    @property
    def cui_to_entity(self) -> Mapping[str, Entity]:
        """The KB itself, under the name that scispaCy gives to this mapping."""
        return self

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

    def rows(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of those `ids` that the KB has."""
        return self._store.rows(ids)

    def ids(self, rows: np.ndarray) -> np.ndarray:
        """The ids at `rows` (integers of any shape), an object array of that shape with "" for row -1.

        RAISES: `IndexError` for any other row that is not in the KB.
        """
        unique, inverse = np.unique(rows, return_inverse=True)
        if unique.size and not -1 <= unique[0] <= unique[-1] < len(self):
            raise IndexError(f"Rows from {unique[0]} to {unique[-1]}, the KB has rows 0 to {len(self) - 1}.")
        ids = self._store.ids(unique.tolist())
        return np.array([ids.get(row, "") for row in unique.tolist()], dtype=object)[inverse].reshape(np.shape(rows))

    def successors(self, ids: Iterable[str]) -> dict[str, str]:
        """The entity that took the place of each of those `ids` that its source has retired."""
        return self._store.successors(ids)

    def index(self, blocks: Iterable[np.ndarray], *, dim: int, metric: Metric, fingerprint: str) -> None:
        """Give the KB vectors, in place of those it has. Killed or failing at any moment, this leaves the KB as it was.

        blocks (Iterable[ndarray]): (n, dim) float32 each, all together one vector per entity in row order.
        fingerprint (str): Names the encoder that made them.
        RAISES: `PelError` for vectors that are not finite, of another shape or not as many as there are entities, and
            where the folder cannot be written or is being indexed by another process.
        """
        if metric not in ("cosine", "dot"):
            raise PelError(f'metric: "{metric}" is not known; use "cosine" or "dot".')
        with self._store.update_meta() as meta:
            replaced = meta.get("vectors", {}).get("file")
            self._remove_vectors(keep=replaced)
            path = self.path / _next_vectors(replaced)
            sha256 = VectorIndex.write(path, blocks, count=len(self), dim=dim)
            meta.update(dim=dim, metric=metric, index_type="flat", fingerprint=fingerprint)
            sample = VectorIndex.sample_digest(path)
            meta["vectors"] = {"file": path.name, "size": path.stat().st_size, "sha256": sha256, "sample": sample}
        self._vectors = self._open_vectors()
        if replaced:
            (self.path / replaced).unlink(missing_ok=True)

    def drop_vectors(self) -> None:
        """Leave the KB with its entities only, as before `index`: for vectors that no encoder fits any more."""
        if self.has_vectors:
            with self._store.update_meta() as meta:
                for key in VECTORS_META:
                    meta.pop(key, None)
            self._vectors = None
            self._remove_vectors(keep=None)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The `k` entities with the largest inner product for each of `queries` (q, dim) float32, by exact search.

        RETURNS: scores (q, k) float32 and rows (q, k) int64, best first; row -1 and score -inf where k > len(kb).
        RAISES: `PelError` for a KB without vectors or queries of another dimension.
        """
        if self._vectors is None:
            raise PelError(
                f"{self.path}: the KB has no vectors; run `python -m spacy pel index PIPELINE {self.path} OUT` "
                f"or `linker.index()`."
            )
        return self._vectors.search(queries, k)

    def copy_to(self, path: str | Path, *, vectors: bool = True) -> KnowledgeBase:
        """Copy the KB to the folder `path`, at once or not at all, and open the copy.

        A KB that is there already is replaced; whoever has it mapped keeps it. The KB's own folder is left as it is.

        vectors (bool): Copy the vectors too, if there are any.
        RAISES: `PelError` for anything else at `path`, or where the KB has changed since it was opened.
        """
        path = Path(path).absolute()
        if path.exists() and path.samefile(self.path):
            return self
        _check_replaceable(path)
        with new_folder(path) as folder:
            keys = [key for key in self.meta if vectors or key not in VECTORS_META]
            self._store.copy_to(folder / ENTITIES, {key: self.meta[key] for key in keys})
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
            same_shape = (len(vectors), vectors.dim) == (len(self), self.dim)
            if not same_shape or VectorIndex.sample_digest(path) != recorded.get("sample"):
                raise PelError(f"{path}: holds the vectors of another KB")
        except PelError as error:
            raise PelError(
                f"{error}; build the KB again with `python -m spacy pel build-kb SOURCE {self.path} --force`, "
                f"then run `python -m spacy pel index`."
            ) from error
        return vectors

    def _remove_vectors(self, keep: str | None) -> None:
        """Remove the vector files, whole or in part, that killed processes left."""
        for path in self.path.glob(VECTORS.format("*") + "*"):
            if path.name != keep:
                path.unlink()


def _next_vectors(name: str | None) -> str:
    number = int(name.split("-")[1].split(".")[0]) if name else 0
    return VECTORS.format(number + 1)


def _check_replaceable(path: Path) -> None:
    """Raise unless `path` is free or a folder with nothing but the files of a KB (be they broken)."""
    if path.is_dir():
        strangers = [p.name for p in path.iterdir() if not p.name.startswith((ENTITIES, VECTORS.split("{")[0]))]
        if strangers:
            raise PelError(
                f'{path}: is not a KB (it holds "{min(strangers)}") and is not replaced; choose another folder.'
            )
    elif path.exists():
        raise PelError(f"{path}: is a file, not a KB folder, and is not replaced; choose another folder.")
