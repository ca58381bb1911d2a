"""What `meta` says of an index, and its files: where they lie, how they are written and which may go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict

import numpy as np

from ...errors import PelError
from ...files.folders import sync
from ..numbering import EntityRows
from .files import FileRecord, appearing, record_of, write_array
from .vectors import VectorIndex

FOLDER = "indexes"
PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class IndexRecord(TypedDict):
    """What `meta` keeps of an index.

    Attributes:
        kind: What the vectors are of: "entity" for entity texts.
        dim: The dimensions of a vector.
        metric: "cosine" or "dot".
        index_type: "flat", or what faiss's `index_factory` takes.
        count: How many vectors its files hold.
        files: "vectors", and "owners": the entity row of each vector, ascending. Without it, vector i is of row i.
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


def write_index(
    folder: Path,
    fingerprint: str,
    blocks: Iterable[np.ndarray],
    owners: EntityRows,
    *,
    before: IndexRecord | None,
    kind: str,
    dim: int,
    metric: str,
    index_type: str,
) -> IndexRecord:
    """Write the files of an index beside those that it has. They count once `meta` names them.

    Args:
        folder: Of the KB.
        fingerprint: Names the encoder that made the vectors.
        blocks: Vectors (n, dim) float32.
        owners: (v,) The entity row of each, ascending.
        before: The record of the files that these are to replace.
        kind: See `IndexRecord`, as for the others.
        dim: The dimensions of a vector.
        metric: "cosine" or "dot".
        index_type: "flat", or what faiss's `index_factory` takes.

    Returns:
        The record of the new files.

    Raises:
        PelError: The metric is not known, or as for `VectorIndex.write`.
    """
    if metric not in ("cosine", "dot"):
        raise PelError(f'metric: "{metric}" is not known; use "cosine" or "dot".')
    place, number = folder / folder_of(fingerprint), _number(before) + 1
    place.mkdir(parents=True, exist_ok=True)
    sync(place.parent)
    sync(folder)
    vectors = place / f"vectors-{number}{VectorIndex.suffix(index_type)}"
    VectorIndex.write(vectors, blocks, count=len(owners), dim=dim, index_type=index_type)
    return {
        "kind": kind,
        "dim": dim,
        "metric": metric,
        "index_type": index_type,
        "count": len(owners),
        "files": {
            "vectors": record_of(folder, vectors),
            "owners": _write_owners(folder, place / f"owners-{number}.npy", owners),
        },
    }


def write_again(
    folder: Path, fingerprint: str, before: IndexRecord, blocks: Iterable[np.ndarray], owners: EntityRows
) -> IndexRecord:
    """`write_index` for an index whose record is `before`, with other vectors of the same encoder."""
    return write_index(
        folder,
        fingerprint,
        blocks,
        owners,
        before=before,
        kind=before["kind"],
        dim=before["dim"],
        metric=before["metric"],
        index_type=before["index_type"],
    )


def remove_others(folder: Path, records: Mapping[str, IndexRecord]) -> None:
    """Remove the files of indexes that `records` do not name: replaced ones, and what killed processes left.

    Raises:
        PelError: A folder for them is a link, and leads to what may be another's.
    """
    for place in (folder / FOLDER, *folder.glob(f"{FOLDER}/*")):
        if place.is_symlink():
            raise PelError(f"{place}: is a link; copy the KB (kb.copy_to) and change the copy.")
    named = {folder / file["name"] for record in records.values() for file in record["files"].values()}
    for pattern in ("vectors-*", f"{FOLDER}/*/vectors-*", f"{FOLDER}/*/owners-*"):
        for path in folder.glob(pattern):
            if path not in named:
                path.unlink()
    for empty in (*folder.glob(f"{FOLDER}/*"), folder / FOLDER):
        with suppress(OSError):
            empty.rmdir()


def copy_files(folder: Path, to: Path, records: Mapping[str, IndexRecord]) -> None:
    """Copy the files of the indexes in `records` from the KB at `folder` to the one at `to`."""
    for file in (file for record in records.values() for file in record["files"].values()):
        (to / file["name"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file["name"], to / file["name"])


def _write_owners(folder: Path, path: Path, owners: EntityRows) -> FileRecord:
    with appearing(path) as part:
        write_array(part, [owners], shape=owners.shape, dtype="<i8")
    return record_of(folder, path)


def _number(record: IndexRecord | None) -> int:
    if record is None:
        return 0
    found = re.search(r"vectors-(\d+)", record["files"]["vectors"]["name"])
    return int(found[1]) if found else 0
