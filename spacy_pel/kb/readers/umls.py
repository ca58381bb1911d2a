"""Entity records from the META folder of a UMLS release."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ...errors import PelError
from ..entity import Entity
from .faults import Faults
from .records import Records, with_last
from .rrf import MRCONSO, MRCUI, MRDEF, MRRANK, MRSTY, Row, Table
from .umls_choice import Choice, choose

DEFINITION_SOURCES = ("MSH", "NCI", "SNOMEDCT_US", "HPO", "GO", "FMA", "UWDA", "CSP", "MEDLINEPLUS")
SUPPRESSED = frozenset("OEY")  # obsolete, by an editor, by the term type
NO_CODE = "NOCODE"

atom_columns = MRCONSO.at("LAT", "SAB", "TTY", "CODE", "STR", "SUPPRESS", "TS", "STT", "ISPREF")
source_column = MRCONSO.at("SAB")
type_columns = MRSTY.at("TUI", "STY")
definition_columns = MRDEF.at("SAB", "DEF", "SUPPRESS")
rank_columns = MRRANK.at("RANK", "SAB", "TTY")
retired_columns = MRCUI.at("CUI1", "REL", "CUI2")

Files = dict[Table, Faults]  # the tables that the release has


def read_umls(
    path: Path,
    *,
    language: str = "ENG",
    sources: Sequence[str] = (),
    types: Sequence[str] = (),
    subtree: bool = False,
    preset: str = "",
    definition_sources: Sequence[str] = DEFINITION_SOURCES,
    strict: bool = False,
) -> Records:
    """Stream the concepts of a release: MRCONSO and MRSTY, and where they are there MRDEF, MRRANK and MRCUI.

    A concept has the names that are in `language`, from `sources` (by default any) and not suppressed. Its title is the
    one whose source and term type MRRANK ranks highest; among equals, and without MRRANK, rows with TS "P" come first,
    then those with STT "PF", with ISPREF "Y", and the earlier ones. The other names, in that order, are the aliases.
    `types` are TUIs and `type_names` what MRSTY calls them, `xrefs` are "SOURCE:CODE", `source` is every vocabulary
    with a name, "+" between them, that of the title first. The definition is the first from `definition_sources`, in
    their order, then from any other of the wanted sources, in the order of MRDEF. Ids for which MRCUI names a synonym
    (REL "SY") are retired in favour of it; broader, narrower and related concepts do not take their place.

    The tables are merged concept by concept and not held in memory; `Table.by_cui` says what happens to files that are
    not sorted. A row that is not right is left out with a warning.

    Args:
        path: The META folder, or the folder that holds it.
        language: Of the names, as LAT has it.
        sources: Vocabularies whose names are read, as SAB has them; empty: any.
        types: TUIs to keep; empty: any.
        subtree: Keep the descendants of `types` too, by MRSTY's tree numbers.
        preset: "st21pv": the sources and types (with subtrees) of MedMentions ST21pv. `sources` and `types` replace its
            own.
        definition_sources: Vocabularies whose definitions come first.
        strict: A row that is not right is an error.

    Raises:
        PelError: The folder has no MRCONSO or MRSTY, more than one row of a table in a hundred is not right (with the
            first of them), the release does not have one of the types or sources, or no concept is left.
    """
    meta = _meta_folder(Path(path))
    skipped: Counter[str] = Counter()
    tables = (MRCONSO, MRSTY, MRDEF, MRRANK, MRCUI)
    files = {table: Faults(file, skipped, strict=strict) for table in tables if (file := table.path(meta))}
    choice = choose(files[MRSTY], language, sources, types, subtree, preset)
    concepts = _Concepts(meta, files, skipped, choice, definition_sources)
    return Records(concepts.entities(), skipped, _retired(files, skipped))


class _Atom(NamedTuple):
    """One name of a concept; `order` is smallest for its title."""

    order: tuple[int, bool, bool, bool]
    name: str
    source: str
    code: str


class _Concepts:
    """Joins the tables of a release to entities."""

    def __init__(
        self, meta: Path, files: Files, skipped: Counter[str], choice: Choice, definition_sources: Sequence[str]
    ) -> None:
        self.skipped = skipped
        self._meta = meta
        self._files = files
        self._choice = choice
        self._ranks = _ranks(files)
        self._definition_order = {source: place for place, source in enumerate(definition_sources)}
        self._sources_met: set[str] = set()

    def entities(self) -> Iterator[Entity]:
        tables = (MRCONSO, MRSTY, MRDEF)
        streams = [_tagged(table, self._files[table]) for table in tables if table in self._files]
        found = 0
        for cui, parts in groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
            rows = {table: part for _, table, part in parts}
            entity = self._entity(cui, *(rows.get(table.name, []) for table in tables))
            if entity:
                found += 1
                yield entity
        self._check(found)

    def _entity(self, cui: str, names: list[Row], kinds: list[Row], definitions: list[Row]) -> Entity | None:
        self._sources_met.update(map(source_column, names))
        types = dict(map(type_columns, kinds))
        if not names:
            self.skipped["CUIs without a row in MRCONSO"] += 1
            return None
        if not types:
            self.skipped["types of CUIs without a row in MRSTY"] += 1
        if self._choice.types is not None and self._choice.types.isdisjoint(types):
            self.skipped["CUIs of other types"] += 1
            return None
        atoms = sorted(self._atoms(names), key=itemgetter(0))
        if not atoms:
            self.skipped["CUIs with no usable name"] += 1
            return None
        name, *aliases = dict.fromkeys(atom.name for atom in atoms)
        codes = dict.fromkeys(f"{atom.source}:{atom.code}" for atom in atoms if atom.code not in ("", NO_CODE))
        return Entity(
            id=cui,
            name=name,
            aliases=tuple(aliases),
            types=tuple(types),
            definition=self._definition(definitions),
            xrefs=tuple(codes),
            source="+".join(dict.fromkeys(atom.source for atom in atoms)),
            type_names=tuple(types.values()),
        )

    def _atoms(self, rows: list[Row]) -> Iterator[_Atom]:
        for row in rows:
            language, source, kind, code, text, suppressed, status, form, preferred = atom_columns(row)
            name = text.strip()
            if language != self._choice.language:
                self.skipped["names in other languages"] += 1
            elif not self._is_wanted(source):
                self.skipped["names from other sources"] += 1
            elif suppressed in SUPPRESSED:
                self.skipped["names that are suppressed"] += 1
            elif not name:
                self.skipped["names that are empty"] += 1
            else:
                rank = self._ranks.get((source, kind), -1)
                yield _Atom((-rank, status != "P", form != "PF", preferred != "Y"), name, source, code)

    def _definition(self, rows: list[Row]) -> str:
        last = len(self._definition_order)
        found = [
            (self._definition_order.get(source, last), text.strip())
            for source, text, suppressed in map(definition_columns, rows)
            if suppressed not in SUPPRESSED and self._is_wanted(source) and text.strip()
        ]
        return min(found, key=itemgetter(0))[1] if found else ""

    def _is_wanted(self, source: str) -> bool:
        return not self._choice.sources or source in self._choice.sources

    def _check(self, found: int) -> None:
        if MRDEF not in self._files:
            self.skipped["definitions, for want of MRDEF"] = found
        there = ", ".join(sorted(self._sources_met))
        if missing := sorted(self._choice.must_occur - self._sources_met):
            raise PelError(f"--sources {','.join(missing)}: {self._meta} has no such source; it has {there}.")
        if not found:
            raise PelError(
                f"{self._meta}: no concept is left by this choice of --language, --sources, --types and --preset; the "
                f"sources there are {there}."
            )


def _meta_folder(path: Path) -> Path:
    """`path`, or the META folder in it.

    Raises:
        PelError: It has no MRCONSO or no MRSTY.
    """
    meta = path / "META" if (path / "META").is_dir() else path
    for table in (MRCONSO, MRSTY):
        table.required(meta)
    return meta


def _tagged(table: Table, faults: Faults) -> Iterator[tuple[str, str, list[Row]]]:
    return ((cui, table.name, rows) for cui, rows in table.by_cui(faults))


def _ranks(files: Files) -> dict[tuple[str, str], int]:
    """The rank of every (source, term type) in MRRANK, where it is there; a higher one is preferred."""
    ranks: dict[tuple[str, str], int] = {}

    def take(row: Row) -> None:
        rank, source, kind = rank_columns(row)
        if not rank.isdecimal():
            raise PelError(f'the rank "{rank}" is not a number; mend the row')
        ranks[source, kind] = int(rank)

    for _ in MRRANK.rows(files[MRRANK], take) if MRRANK in files else ():
        pass
    return ranks


def _retired(files: Files, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
    successors: dict[str, str] = {}
    for row in MRCUI.rows(files[MRCUI]) if MRCUI in files else ():
        old, relation, new = retired_columns(row)
        if relation == "SY" and new:
            successors[old] = new
        else:
            skipped["rows of MRCUI that name no synonym"] += 1
    yield from with_last(successors)
