"""Entity records from an ontology in the OBO format."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...files.lines import decoded, numbered
from ..entity import Entity
from .faults import Faults
from .obo_clauses import ADJECTIVE, SCOPES, STANZA, Clause, clause
from .records import Records, with_last

MOST_BROKEN = 0.5  # share of the lines: a file with more is not OBO


def read_obo(path: Path, *, id_prefix: str = "", scopes: Sequence[str] = ("EXACT",), strict: bool = False) -> Records:
    """Stream the terms of a file in OBO 1.2 or 1.4 (or a .gz of one), but for those that are obsolete or have no name.

    `aliases` are the synonyms whose scope is one of `scopes` and relational adjectives ("cardiac" of the heart, as
    UBERON has them), `types` the namespace. Ids that a term calls alternative, and those of obsolete terms with a
    `replaced_by`, their alternative ones too, are retired in favour of it, or of what has taken its place in turn. A
    broken line is left out with a warning, but for the text that it begins with; so is a term that has the id of
    another.

    Args:
        path: The file.
        id_prefix: Take the xref with this prefix as id, without the prefix: "UMLS" makes "UMLS:C0020179" the id
            "C0020179". The term's own id becomes an xref. Terms without such an xref are left out, as are those whose
            xref an earlier term has.
        scopes: Of the synonyms to read: EXACT, NARROW, BROAD, RELATED.
        strict: A broken line is an error.

    Raises:
        PelError: Most lines are broken (with the first of them), or no term is left.
    """
    scopes = tuple(scope.upper() for scope in scopes)
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise PelError(f'--scopes: "{unknown[0]}" is not a scope; use {", ".join(SCOPES)}.')
    skipped: Counter[str] = Counter()
    terms = _Terms(
        Faults(Path(path), skipped, strict=strict, unit="lines", most=MOST_BROKEN), skipped, id_prefix, scopes
    )
    return Records(terms.entities(), skipped, terms.retired)


class _Term(defaultdict[str, list[Any]]):
    """The values of its clauses by tag, and the line it begins at."""

    def __init__(self, line: int) -> None:
        super().__init__(list)
        self.line = line

    def last(self, tag: str) -> Any:
        return self[tag][-1] if tag in self else ""


class _Terms:
    def __init__(self, faults: Faults, skipped: Counter[str], id_prefix: str, scopes: tuple[str, ...]) -> None:
        self.retired: list[tuple[str, str]] = []  # complete once the terms have been read
        self._successors: dict[str, str] = {}
        self._faults = faults
        self._skipped = skipped
        self._prefix = f"{id_prefix.removesuffix(':')}:" if id_prefix else ""
        self._scopes = scopes
        self._namespace = ""
        self._lines: dict[str, int] = {}

    def entities(self) -> Iterator[Entity]:
        for term in self._terms():
            try:
                entity = self._entity(term)
            except PelError as error:
                self._faults.add(term.line, error)
                continue
            if entity:
                yield entity
        if not self._lines:
            raise self._no_term()
        self._faults.close()
        self.retired.extend(with_last({old: new for old, new in self._successors.items() if old not in self._lines}))

    def _terms(self) -> Iterator[_Term]:
        term: _Term | None = None
        for found in self._faults.parsed(numbered(self._faults.path), _clause):
            if found is None:
                continue
            number, tag, value = found
            second_id = term is not None and tag == "id" and "id" in term
            if second_id:
                self._faults.add(number, PelError("the id stands within another term; write [Term] before it"))
            if term is not None and (second_id or tag == STANZA):
                yield term
                term = None
            if tag == STANZA and value == "Term":
                term = _Term(number)
            elif term is not None:
                term[tag].append(value)
            elif tag == "default-namespace":
                self._namespace = str(value)
        if term is not None:
            yield term

    def _entity(self, term: _Term) -> Entity | None:
        id, name = term.last("id"), term.last("name")
        if not id:
            raise PelError("the term has no id; give it one")
        if term.last("is_obsolete"):
            self._skipped["terms that are obsolete"] += 1
            self._retire([id, *term["alt_id"]], term["replaced_by"])
        elif not name:
            self._skipped["terms without a name"] += 1
        elif own := self._id(id, term["xref"]):
            synonyms = (synonym for synonym, scope in term["synonym"] if scope in self._scopes)
            names = dict.fromkeys((*synonyms, *term[ADJECTIVE]))
            namespace = term.last("namespace") or self._namespace
            entity = Entity(
                id=own,
                name=name,
                aliases=tuple(one for one in names if one and one != name),
                types=(namespace,) if namespace else (),
                definition=term.last("def"),
                xrefs=tuple(dict.fromkeys(xref for xref in (id, *term["xref"]) if xref != self._prefix + own)),
                source=id.partition(":")[0],
            )
            self._lines[own] = term.line
            self._retire(term["alt_id"], [own])
            return entity
        return None

    def _id(self, id: str, xrefs: Sequence[str]) -> str | None:
        if not self._prefix:
            if id in self._lines:
                raise PelError(f'the id "{id}" is that of line {self._lines[id]} too; give every term its own id')
            return id
        ids = [xref.removeprefix(self._prefix) for xref in xrefs if xref.startswith(self._prefix)]
        if not ids:
            self._skipped[f"terms without an xref {self._prefix}"] += 1
        elif ids[0] in self._lines:
            self._skipped[f"terms whose xref {self._prefix} an earlier term has"] += 1
        else:
            return ids[0]
        return None

    def _retire(self, ids: list[str], successors: list[str]) -> None:
        if not self._prefix and successors:
            self._successors |= dict.fromkeys(ids, successors[0])

    def _no_term(self) -> PelError:
        left_out = "".join(f" Left out: {count:,} {what}." for what, count in self._skipped.items())
        return PelError(
            f"{self._faults.path}: no term is left; give an OBO file, or another --id-prefix.{left_out} "
            f"{self._faults.first}".rstrip()
        )


def _clause(number: int, line: bytes) -> Clause | None:
    return clause(number, decoded(line).strip("\ufeff \t\r\n"))
