"""Changes that concern the records and the indexes of a KB alike, within a transaction of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from .entity import Entity
from .index.entity_index import EntityIndex
from .index.indexes import NewVectors, check_added, check_owners, renumbered
from .index.on_disk import NewIndex, write_again, write_index
from .index.owners import Owners
from .numbering import EntityRows
from .records import writing
from .records.schema import removed_rows


def put(
    path: Path,
    connection: Connection,
    meta: dict[str, Any],
    entities: Sequence[Entity],
    given: Sequence[NewVectors],
    replaced: Sequence[str],
) -> None:
    """Add entities and their vectors in the place of those with the ids `replaced`.

    See `KnowledgeBase.add`. `path` is the folder of the KB.
    """
    check_added(path, meta["indexes"], len(entities), given)
    if replaced:
        writing.delete_entities(connection, meta, replaced)
    rows = writing.add(connection, meta, entities)
    for own in given:
        writing.add_vectors(connection, meta, own.fingerprint, EntityRows(rows[own.places]), own.vectors)


def index(
    path: Path,
    connection: Connection,
    meta: dict[str, Any],
    new: Sequence[NewIndex],
    live_rows: EntityRows,
    removed: EntityRows,
) -> None:
    """Write indexes of the KB at `path`. Where it has no others, number the entities anew, without the rows `removed`.

    See `KnowledgeBase.write_indexes`.
    """
    alone = not (meta["indexes"].keys() - {one.fingerprint for one in new})
    for one in new:
        owners = Owners(live_rows) if one.owners is None else one.owners
        check_owners(path, owners, live_rows)
        if alone:
            owners = owners.with_rows(renumbered(owners.rows, removed))
        meta["indexes"][one.fingerprint] = write_index(path, one, owners, before=meta["indexes"].get(one.fingerprint))
        writing.forget_vectors(connection, meta, one.fingerprint)
    if alone:
        writing.renumber_rows(connection, meta)  # last: from here on nobody else can read
    if not removed_rows(connection):
        writing.bring_names_up_to_date(path, connection, meta)


def compact(
    path: Path,
    connection: Connection,
    meta: dict[str, Any],
    indexes: Mapping[str, EntityIndex],
    removed: EntityRows,
) -> None:
    """Write all `indexes` of the KB at `path` again, without the rows `removed`, and number the entities anew."""
    for fingerprint, one in indexes.items():
        owners = one.owners()
        owners = owners.with_rows(renumbered(owners.rows, removed))
        meta["indexes"][fingerprint] = write_again(path, fingerprint, one.record, one.blocks(), owners)
        writing.forget_vectors(connection, meta, fingerprint)
    writing.renumber_rows(connection, meta)
    writing.bring_names_up_to_date(path, connection, meta)
