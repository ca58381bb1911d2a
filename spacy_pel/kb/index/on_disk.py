"""What `meta` says of an index, and its files: where they lie, how they are written and which may go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from ...errors import PelError
from ...files.folders import sync
from ..kinds import ENTITY
from ..stored_files import FileRecord, appearing, copy_file, record_of, refuse_link
from .compressed import auto_type
from .files import write_array
from .owners import Owners
from .vectors import VectorIndex

FOLDER = "indexes"
PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
FILE_NAME = re.compile(rf"({FOLDER}/{PLAIN.pattern}/(vectors|owners)|vectors)-\d+\.(npy|faiss)")


class IndexRecord(TypedDict):
    """What `meta` keeps of an index.

    Attributes:
        kind: What the vectors are of: "entity" for entity texts, "names" for names.
        dim: The dimensions of a vector.
        metric: "cosine" or "dot".
        index_type: "flat", or what faiss's `index_factory` takes.
        count: How many vectors its files hold.
        files: "vectors", and "owners", see `Owners.array`. Without it, vector i is of row i.
    """

    kind: str
    dim: int
    metric: str
    index_type: str
    count: int
    files: dict[str, FileRecord]


def folder_of(fingerprint: str) -> str:
    """The folder of an index, relative to that of the KB: its fingerprint, or a hash of one that is no safe name."""
    plain = PLAIN.fullmatch(fingerprint)
    return f"{FOLDER}/{fingerprint if plain else blake2b(fingerprint.encode(), digest_size=16).hexdigest()}"


class NewIndex(NamedTuple):
    """Vectors that are to be an index.

    Attributes:
        fingerprint: Names the encoder that made the vectors.
        blocks: (n, dim) float32 each, all together one for each number of `owners`.
        dim: The dimensions of a vector.
        metric: "cosine" or "dot".
        owners: Which entities own them; None: one for each entity of the KB.
        kind: What the vectors are of: "entity" for entity texts, "names" for names.
        index_type: "flat" for exact search, what faiss's `index_factory` takes, or "auto": exact for few vectors,
            compressed for many (`index.compressed.auto_type`).
    """

    fingerprint: str
    blocks: Iterable[np.ndarray]
    dim: int
    metric: str
    owners: Owners | None = None
    kind: str = ENTITY
    index_type: str = "auto"


def write_index(folder: Path, new: NewIndex, owners: Owners, *, before: IndexRecord | None) -> IndexRecord:
    """Write the files of an index beside those that it has. They count once `meta` names them.

    Args:
        folder: Of the KB.
        new: What to write.
        owners: Which entities own the vectors.
        before: The record of the files that these are to replace.

    Returns:
        The record of the new files.

    Raises:
        PelError: The metric is not known, or as for `VectorIndex.write`.
    """
    if new.metric not in ("cosine", "dot"):
        raise PelError(f'metric: "{new.metric}" is not known; use "cosine" or "dot".')
    count = owners.n_vectors
    index_type = auto_type(count, new.dim) if new.index_type == "auto" else new.index_type
    place, number = folder / folder_of(new.fingerprint), _number(before) + 1
    place.mkdir(parents=True, exist_ok=True)
    sync(place.parent)
    sync(folder)
    vectors = place / f"vectors-{number}{VectorIndex.suffix(index_type)}"
    VectorIndex.write(vectors, new.blocks, count=count, dim=new.dim, index_type=index_type)
    return {
        "kind": new.kind,
        "dim": new.dim,
        "metric": new.metric,
        "index_type": index_type,
        "count": count,
        "files": {
            "vectors": record_of(folder, vectors),
            "owners": _write_owners(folder, place / f"owners-{number}.npy", owners.array),
        },
    }


def write_again(
    folder: Path, fingerprint: str, before: IndexRecord, blocks: Iterable[np.ndarray], owners: Owners
) -> IndexRecord:
    """`write_index` for an index whose record is `before`, with other vectors of the same encoder."""
    same: Any = {key: before[key] for key in ("dim", "metric", "kind", "index_type")}
    return write_index(folder, NewIndex(fingerprint, blocks, **same), owners, before=before)


def remove_others(folder: Path, records: Mapping[str, IndexRecord]) -> None:
    """Remove the files of indexes that `records` do not name: replaced ones, and what killed processes left. Those that
    this process may not remove, or that Windows keeps for who has them mapped, stay for a later change.

    Raises:
        PelError: A folder for them is a link, and leads to what may be another's.
    """
    for place in (folder / FOLDER, *folder.glob(f"{FOLDER}/*")):
        refuse_link(place)
    named = {folder / file["name"] for record in records.values() for file in record["files"].values()}
    for pattern in ("vectors-*", f"{FOLDER}/*/vectors-*", f"{FOLDER}/*/owners-*"):
        for path in folder.glob(pattern):
            if path not in named:
                with suppress(PermissionError):
                    path.unlink()
    for empty in (*folder.glob(f"{FOLDER}/*"), folder / FOLDER):
        with suppress(OSError):
            empty.rmdir()


def copy_files(folder: Path, to: Path, records: Mapping[str, IndexRecord]) -> None:
    """Copy the files of the indexes in `records` from the KB at `folder` to the one at `to`."""
    for file in (file for record in records.values() for file in record["files"].values()):
        copy_file(folder, to, file, FILE_NAME)


def _write_owners(folder: Path, path: Path, owners: np.ndarray) -> FileRecord:
    with appearing(path) as part:
        write_array(part, [owners], shape=owners.shape, dtype="<i8")
    return record_of(folder, path)


def _number(record: IndexRecord | None) -> int:
    if record is None:
        return 0
    found = re.search(r"vectors-(\d+)", record["files"]["vectors"]["name"])
    return int(found[1]) if found else 0
