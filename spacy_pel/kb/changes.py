"""Changes that concern the records and the indexes of a KB alike, within a transaction of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np

from .entity import Entity
from .index.entity_index import EntityIndex
from .index.indexes import check_added, renumbered
from .index.on_disk import write_again
from .numbering import EntityRows
from .records import writing


def put(
    path: Path,
    connection: Connection,
    meta: dict[str, Any],
    entities: Sequence[Entity],
    vectors: np.ndarray | None,
    fingerprint: str | None,
    owners: Sequence[int] | None,
    replaced: Sequence[str],
) -> None:
    """Add entities and their vectors in the place of those with the ids `replaced`.

    See `KnowledgeBase.add`. `path` is the folder of the KB.
    """
    places = np.arange(len(entities)) if owners is None else np.asarray(owners, dtype=np.int64)
    check_added(path, meta["indexes"], len(entities), places, vectors, fingerprint)
    if replaced:
        writing.delete_entities(connection, meta, replaced)
    rows = writing.add(connection, meta, entities)
    if vectors is not None and fingerprint is not None:
        writing.add_vectors(connection, meta, fingerprint, EntityRows(rows[places]), vectors)


def compact(
    path: Path,
    connection: Connection,
    meta: dict[str, Any],
    indexes: Mapping[str, EntityIndex],
    removed: EntityRows,
) -> None:
    """Write all `indexes` of the KB at `path` again, without the rows `removed`, and number the entities anew."""
    for fingerprint, index in indexes.items():
        owners = renumbered(index.owners(), removed)
        meta["indexes"][fingerprint] = write_again(path, fingerprint, index.record, index.blocks(), owners)
        writing.forget_vectors(connection, meta, fingerprint)
    writing.renumber_rows(connection, meta)
    writing.bring_names_up_to_date(path, connection, meta)
