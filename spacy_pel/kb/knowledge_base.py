"""The knowledge base: a folder with entity records and, once indexed, vectors of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Literal

import numpy as np

from ..checks import check_text, text_list
from ..errors import PelError
from ..files.folders import check_not_left_aside, check_replaceable, new_folder
from ..files.temporary import TemporaryFolder
from .allowed import Allowed
from .changes import compact, index, put
from .damage import UnknownId
from .entity import Entity, entities_given, is_text
from .index.edits import PendingEdits
from .index.entity_index import EntityIndex
from .index.indexes import Indexes, NewVectors
from .index.on_disk import FOLDER, NewIndex, copy_files, remove_others
from .index.owners import Owners
from .kinds import ENTITY
from .names.alias_to_cuis import AliasToCuis
from .names.name_index import NameIndex
from .numbering import EntityRows, no_rows
from .records import writing
from .records.remedy import remedy
from .records.store import RecordStore, State

Metric = Literal["cosine", "dot"]
ENTITIES = "entities.sqlite"
# The names in a KB folder. Vectors of formats 2 and 3 lay beside the records; the last are left by killed processes
FILES = (
    rf"{re.escape(ENTITIES)}(-journal|-wal|-shm)?|{FOLDER}|names|vectors-\d+\.(npy|faiss)(\.flat)?(\.part)?"
    r"|\..+\.(new|old)-\w+"
)


class KnowledgeBase(Mapping[str, Entity]):
    """A KB folder, opened to be looked up and searched. As a mapping it goes from ids to entities, in row order.

    A KB holds records, and for each encoder that has indexed it an index: `kb.entity_index(fingerprint).search(...)`.
    Rows number the entities: from 0, without gaps but for those that removed entities leave until the KB is compacted.
    It can be used from several threads and forked processes, sees at the next search what another process has changed,
    and pickles as its path.

    Attributes:
        path: The folder.
        records: What the entities are.
        names: The index of the entities' names.
        lives_in: The temporary folder in which it lies, which goes with it; None: it lies elsewhere.
    """

    __eq__ = object.__eq__  # `Mapping`'s compares all items, two look-ups for each of millions of entities
    __hash__ = object.__hash__

    def __init__(self, path: str | Path) -> None:
        """Open a KB.

        Args:
            path: The folder, written by `KnowledgeBase.create` or `build-kb`.

        Raises:
            PelError: There is no KB at `path`, or one of its files is missing, truncated or foreign.
        """
        self.path = Path(path).absolute()
        self.lives_in: TemporaryFolder | None = None
        check_not_left_aside(self.path)
        self.records = RecordStore(self.path / ENTITIES)
        self.names = NameIndex(self.records)
        self._removed = no_rows()
        self._indexes = Indexes(self.path, self._notice_changes)
        self._catch_up()

    @classmethod
    def create(
        cls,
        path: str | Path,
        entities: Iterable[Entity],
        *,
        source: str = "",
        release: str = "",
        licence: str = "",
        retired: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        overwrite: bool = False,
    ) -> KnowledgeBase:
        """Build a KB folder without vectors and open it. It appears at once, or not at all.

        Args:
            path: The folder.
            entities: Numbered in this order.
            source: A note kept in `meta`, as are `release` and `licence`.
            release: Of the source.
            licence: Of the source.
            retired: (old id, successor) pairs, or a dict of them, read after the entities. Those whose successor is an
                entity are kept.
            overwrite: Replace a KB that is there already.

        Raises:
            PelError: There are no entities, one has no name, an id comes twice, a KB is at `path` and `overwrite`
                is not set, or anything else is at `path`, which is never replaced.
        """
        path = Path(path).absolute()
        check_replaceable(path, FILES)
        if path.exists() and not overwrite:
            raise PelError(
                f"{path}: is there already; choose another folder or replace it with --force (overwrite=True)."
            )
        with new_folder(path) as folder:
            notes = {"source": source, "release": release, "licence": licence}
            RecordStore.create(folder / ENTITIES, entities, retired, **notes)
        return cls(path)

    @property
    def meta(self) -> dict[str, Any]:
        """Format version, source, release, licence and counts; `indexes`: an `IndexRecord` for each fingerprint."""
        return self.records.meta

    @property
    def n_rows(self) -> int:
        """One more than the last row."""
        self._notice_changes()
        return self.meta["rows"]

    @property
    def live_rows(self) -> EntityRows:
        """The rows (n,) that have an entity, ascending: all of `range(n_rows)` before the first removal."""
        n_rows = self.n_rows  # first: it notices what has been removed
        return EntityRows(np.delete(np.arange(n_rows), self._removed))

    @property
    def n_added(self) -> int:
        """Entities added with vectors that no file holds yet."""
        return self._indexes.n_added

    @property
    def n_removed(self) -> int:
        """Rows that removed entities have left empty."""
        return len(self._removed)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of the records and of all indexes."""
        return self.records.size_bytes + self._indexes.size_bytes

    def __len__(self) -> int:
        self._notice_changes()
        return len(self.records)

    def __iter__(self) -> Iterator[str]:
        self._notice_changes()
        return self.records.all_ids()

    def __getitem__(self, id: str) -> Entity:
        entity = self.records.get(id) if is_text(id) else None
        if entity is None:
            raise UnknownId(self.path, id)
        return entity

    def get_many(self, ids: Iterable[str]) -> dict[str, Entity]:
        """The entities of those `ids` that the KB has."""
        return self.records.get_many(ids)

    def entities(self) -> Iterator[Entity]:
        """Every entity in row order, streamed. The KB may change meanwhile: what is added then is not among them.

        Raises:
            PelError: At the end, where one that was changed before it was read may be missing.
        """
        self._notice_changes()
        return self.records.entities()

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
        return self.records.rows(ids)

    @property
    def moment(self) -> object:
        """An object that is another one as soon as the KB has changed, by this process or any other."""
        return self.records.latest_meta()

    def ids(self, rows: EntityRows) -> np.ndarray:
        """The ids at `rows`.

        Args:
            rows: Of any shape.

        Returns:
            An object array of that shape, with "" for row -1 and for the rows of removed entities.

        Raises:
            IndexError: The KB never had such a row.
        """
        return self.records.ids_at(rows)

    def named(self, form: str) -> list[Entity]:
        """The entities that have `form` as name or alias, case, punctuation and white space aside, in row order.

        Raises:
            PelError: It is no text.
        """
        check_text("kb.named", "form", form, "give a name, such as ent.text")
        return self.records.named(form)

    def rows_of_types(self, types: Iterable[str]) -> EntityRows:
        """The rows (n,) of the entities that have any of `types`, ascending; kept until the KB changes.

        Raises:
            PelError: No entity has one of the types, or they are no texts in a list.
        """
        return self.rows_allowed(Allowed(types=frozenset(self._texts("types", types))))

    def rows_allowed(self, allowed: Allowed) -> EntityRows:
        """The rows (n,) of the entities that have what is asked for, ascending; kept until the KB changes.

        Raises:
            PelError: No entity has one of the types, or a code of one of the vocabularies.
        """
        self._notice_changes()
        return self.records.groups.rows(allowed)

    def check_vocabularies(self, vocabularies: Iterable[str]) -> None:
        """Raise `PelError`, which says which there are, where no entity has a code of one of `vocabularies`."""
        self._notice_changes()
        self.records.groups.check_vocabularies(vocabularies)

    def with_type_names(self, entity: Entity) -> Entity:
        """`entity` with the names that the KB has for its types, so that an encoder reads it as one of the KB's own."""
        names = self.meta.get("type_names")
        if not names or entity.type_names:
            return entity
        return replace(entity, type_names=tuple(names.get(kind, kind) for kind in entity.types))

    def type_counts(self) -> dict[str, int]:
        """How many entities each type has, the commonest first."""
        return self.records.groups.type_counts()

    def code_counts(self) -> dict[str, int]:
        """How many entities have codes of each vocabulary that `xrefs` name, the commonest first."""
        self._notice_changes()
        return self.records.groups.code_counts()

    def source_counts(self) -> dict[str, int]:
        """How many entities came from each source (of "A+B" each part counts), the commonest first. Reads all."""
        return self.records.source_counts()

    def successors(self, ids: Iterable[str] | None = None) -> dict[str, str]:
        """The entity that took the place of each of those `ids`, or of all, that its source has retired."""
        return self.records.successors(ids)

    def same_concepts(self) -> EntityRows:
        """Pairs (n, 2) of the rows of entities that the KB marks as the same concept: the `xrefs` of the first name the
        id of the second."""
        return self.records.same_concepts()

    @property
    def indexes(self) -> Mapping[str, EntityIndex]:
        """The indexes, by the fingerprint of the encoder that made each."""
        self._notice_changes()
        return self._indexes

    def entity_index(self, fingerprint: str | None = None) -> EntityIndex:
        """The index of one encoder.

        Args:
            fingerprint: Names the encoder; None: the only index there is.

        Raises:
            PelError: There is no such index, or there are several and `fingerprint` is None.
        """
        if fingerprint not in self._indexes:
            self._notice_changes()
        return self._indexes.get_one(fingerprint)

    def index(
        self,
        blocks: Iterable[np.ndarray],
        *,
        dim: int,
        metric: Metric,
        fingerprint: str,
        index_type: str = "auto",
        owners: Owners | EntityRows | None = None,
        kind: str = ENTITY,
    ) -> None:
        """`write_indexes` for one: see `NewIndex` for what it takes. owners: also as the rows (v,) of the entity that
        owns each vector, ascending."""
        own = owners if owners is None or isinstance(owners, Owners) else Owners(owners)
        self.write_indexes([NewIndex(fingerprint, blocks, dim, metric, own, kind, index_type)])

    def write_indexes(self, new: Sequence[NewIndex]) -> None:
        """Give the KB the vectors of encoders, in place of those that it has of the same. Those of others stay.

        Killed or failing at any moment, this leaves the KB as it was. Where the KB has no other index, the gaps that
        removed entities left in the rows are closed, and whoever has the KB open has to open it again. Otherwise only
        `compact` does that.

        Raises:
            PelError: faiss refuses the index type, the vectors are not finite, of another shape or not as many as
                `owners`, the owners are not ascending rows of entities, the folder cannot be written, or another
                process changes the KB.
        """
        self._change(lambda connection, meta: index(self.path, connection, meta, new, self.live_rows, self._removed))

    def drop_index(self, fingerprint: str) -> None:
        """Remove the vectors of one encoder. Where the KB has none of it, nothing happens."""

        def edit(connection: Connection, meta: dict[str, Any]) -> None:
            writing.forget_vectors(connection, meta, fingerprint)
            meta["indexes"].pop(fingerprint, None)

        self._change(edit)

    def compact(self) -> None:
        """Write new files for each index, without the vectors of removed entities and with those of added ones, and
        close the gaps in the rows: after many changes the search is then as fast as before them. Where the KB is open
        elsewhere, it has to be opened again.

        Raises:
            PelError: Another process changes the KB, its folder cannot be written, or faiss refuses the index type for
                the vectors that are left.
        """
        self._change(lambda connection, meta: compact(self.path, connection, meta, self._indexes, self._removed))

    def add(self, entities: Sequence[Entity], *vectors: NewVectors) -> None:
        """Add new entities in one transaction: killed or failing at any moment, this leaves the KB as it was.

        Args:
            entities: With ids that the KB does not have.
            vectors: Of one index of the KB at least, where it has any; the others get none, see
                `EntityIndex.n_missing`.

        Raises:
            PelError: They are no entities in a list, or one has no name; an id comes twice or is in the KB; vectors are
                missing, not finite or of another shape or encoder; another process changes the KB.
        """
        self._put(entities_given(entities), vectors)

    def update(self, entities: Sequence[Entity], *vectors: NewVectors, instead_of: Iterable[Entity] = ()) -> None:
        """Put `entities` in the place of those with the same ids, as `add` does.

        Args:
            entities: With ids that the KB has.
            vectors: As for `add`.
            instead_of: Entities as they were read, which nobody may have changed since.

        Raises:
            PelError: As for `add`, and where an id is not in the KB, or an entity is not as it was read.
        """
        new = entities_given(entities)
        self._put(new, vectors, replaced=[entity.id for entity in new], as_read=instead_of)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove entities in one transaction. They are never found again.

        Raises:
            PelError: An id is not in the KB, no entity would be left, or they are no texts in a list.
        """
        gone = self._texts("ids", ids)

        def edit(connection: Connection, meta: dict[str, Any]) -> None:
            writing.remove(connection, meta, gone)
            if not meta["counts"]["entities"]:
                raise PelError(f"{self.path}: these are all its entities; one must stay.")

        self._change(edit)

    def copy_to(self, path: str | Path, *, indexes: Collection[str] | None = None) -> KnowledgeBase:
        """Copy the KB to a folder, at once or not at all, and open the copy.

        A KB that is there already is replaced; whoever has it mapped keeps it. The KB's own folder is left as it is.

        Args:
            path: The folder.
            indexes: The fingerprints of the indexes to copy; None: all.

        Raises:
            PelError: Something else is at `path`, it is in the KB's own folder, or the KB changes meanwhile.
        """
        path = Path(path).absolute()
        if path.exists() and path.samefile(self.path):
            return self
        if path.resolve().is_relative_to(self.path.resolve()):
            raise PelError(f"{path}: is in the KB's own folder; choose one outside it.")
        check_replaceable(path, FILES)
        self._notice_changes()
        own = {key: record for key, record in self.meta["indexes"].items() if indexes is None or key in indexes}
        with new_folder(path) as folder:
            self.records.copy_to(folder / ENTITIES, own)
            copy_files(self.path, folder, own)
        return type(self)(path)

    def close(self) -> None:
        """Close the files. A closed KB is of no more use."""
        self.records.close()
        self._indexes.close()

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[Path], set[tuple[str, str]]]:
        return type(self), (self.path,), self.records.groups_seen

    def __setstate__(self, groups_seen: set[tuple[str, str]]) -> None:
        self.records.groups_seen.update(groups_seen)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self.records)} entities)"

    def _texts(self, key: str, values: Iterable[str]) -> list[str]:
        is_list = isinstance(values, Iterable) and not isinstance(values, str)
        return text_list(str(self.path), key, list(values) if is_list else values)

    def _change(self, edit: Callable[[Connection, dict[str, Any]], None]) -> None:
        """`RecordStore.change`, with this KB as it is on the disk before, and as it has become afterwards."""

        def caught_up(connection: Connection, meta: dict[str, Any]) -> None:
            self._notice_changes()
            remove_others(self.path, meta["indexes"])  # what a killed process left
            edit(connection, meta)

        self.records.change(caught_up)
        self._catch_up()
        # Not where another process may be writing files: it will remove these.
        self.records.if_undisturbed(lambda meta: remove_others(self.path, meta["indexes"]))

    def _put(
        self,
        entities: Sequence[Entity],
        vectors: Sequence[NewVectors],
        replaced: Sequence[str] = (),
        as_read: Iterable[Entity] = (),
    ) -> None:
        def edit(connection: Connection, meta: dict[str, Any]) -> None:
            self._check_unchanged(as_read)
            put(self.path, connection, meta, entities, vectors, replaced)

        self._change(edit)

    def _check_unchanged(self, as_read: Iterable[Entity]) -> None:
        read = {entity.id: entity for entity in as_read}
        now = self.get_many(read)
        for id_, entity in read.items():
            if now.get(id_) != entity:
                raise PelError(f"{self.path}: another process has changed {id_} meanwhile; try again.")

    def _notice_changes(self) -> None:
        """Take over what another process has changed."""
        if self.records.latest_meta() != self.meta:
            self._catch_up()

    def _catch_up(self) -> None:
        """Turn to the files as they are now."""
        state = self.records.state()
        while True:
            try:
                return self._take_over(state)
            except PelError as error:  # unless another process has just replaced the file that is missing
                before, state = state, self.records.state()
                if state.meta == before.meta:
                    raise PelError(f"{error}; {remedy(self.records.path)}") from error

    def _take_over(self, state: State) -> None:
        records = state.meta["indexes"]
        edits = {
            fingerprint: PendingEdits(
                state.meta["counts"]["entities"], state.removed, *state.vectors_of(fingerprint, record["dim"])
            )
            for fingerprint, record in records.items()
        }
        self._indexes.turn_to(records, edits)
        self._removed = self.names.removed = state.removed
        self.records.adopt(state.meta)
