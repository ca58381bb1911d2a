"""Entity records from an ontology in the OBO format, read by the library fastobo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import PelError
from ...files.lines import check_text, opened
from ..entity import Entity
from .records import Records

SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")


def read_obo(path: Path, *, id_prefix: str = "", scopes: Sequence[str] = ("EXACT",)) -> Records:
    """Stream the terms of a file in OBO 1.4 (or a .gz of one); obsolete ones and those without a name are left out.

    `aliases` are the synonyms whose scope is one of `scopes`, `types` the namespace. Ids that a term calls alternative,
    and those of obsolete terms with a `replaced_by`, are retired in favour of it.

    Args:
        path: The file.
        id_prefix: Take the xref with this prefix as id, without the prefix: "UMLS" makes "UMLS:C0020179" the id
            "C0020179". The term's own id becomes an xref. Terms without such an xref are left out, as are those whose
            xref an earlier term has.
        scopes: Of the synonyms to read: EXACT, NARROW, BROAD, RELATED.

    Raises:
        PelError: The file is not OBO, an id comes twice (both with the line or term), no term is left, or fastobo is
            not installed.
    """
    scopes = tuple(scope.upper() for scope in scopes)
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise PelError(f'--scopes: "{unknown[0]}" is not a scope; use {", ".join(SCOPES)}.')
    terms = _Terms(Path(path), _fastobo(), id_prefix, scopes)
    return Records(terms.entities(), terms.skipped, terms.retired)


def _fastobo() -> ModuleType:
    try:
        import fastobo
    except ImportError as error:
        raise PelError('--format obo: needs the package fastobo; run `pip install "spacy-pel[obo]"`.') from error
    return fastobo


@dataclass
class _Fields:
    """What a term says of itself, read clause by clause."""

    id: str
    name: str = ""
    definition: str = ""
    namespace: str = ""
    is_obsolete: bool = False
    synonyms: list[str] = field(default_factory=list)
    xrefs: list[str] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)
    replacements: list[str] = field(default_factory=list)


class _Terms:
    def __init__(self, path: Path, library: ModuleType, id_prefix: str, scopes: tuple[str, ...]) -> None:
        self.skipped: Counter[str] = Counter()
        self.retired: list[tuple[str, str]] = []
        self._path = path
        self._library = library
        self._prefix = f"{id_prefix.removesuffix(':')}:" if id_prefix else ""
        self._scopes = scopes
        self._ids: set[str] = set()

    def entities(self) -> Iterator[Entity]:
        for term in self._terms():
            try:
                entity = self._entity(term)
            except PelError as error:
                raise PelError(f"{self._path}: term {term.id}: {error}.") from error
            if entity:
                yield entity
        if not self._ids:
            raise PelError(f"{self._path}: no term is left; give an OBO file, or another --id-prefix.")

    def _terms(self) -> Iterator[_Fields]:
        with opened(self._path) as file:
            try:
                document = self._library.iter(file, ordered=True, threads=1)
                namespace = _default_namespace(document.header())
                for frame in document:
                    if isinstance(frame, self._library.term.TermFrame):
                        yield self._fields(frame, namespace)
            except SyntaxError as error:
                raise PelError(f"{self._path}:{error.lineno}: is not OBO ({error.msg}); mend the line.") from error
            except (OSError, TypeError):  # the library's words for a stream that breaks off or is not UTF-8
                check_text(self._path)
                raise

    def _fields(self, frame: Any, namespace: str) -> _Fields:
        term = _Fields(str(frame.id), namespace=namespace)
        for clause in frame:
            match clause.raw_tag():
                case "name":
                    term.name = clause.name.strip()
                case "def":
                    term.definition = clause.definition.strip()
                case "namespace":
                    term.namespace = str(clause.namespace)
                case "is_obsolete":
                    term.is_obsolete = clause.obsolete
                case "synonym" if clause.synonym.scope in self._scopes:
                    term.synonyms.append(clause.synonym.desc.strip())
                case "xref":
                    term.xrefs.append(str(clause.xref.id))
                case "alt_id":
                    term.alternatives.append(str(clause.alt_id))
                case "replaced_by":
                    term.replacements.append(str(clause.term))
        return term

    def _entity(self, term: _Fields) -> Entity | None:
        if term.is_obsolete:
            self.skipped["terms that are obsolete"] += 1
            self._retire([term.id], term.replacements)
            return None
        if not term.name:
            self.skipped["terms without a name"] += 1
            return None
        id = self._id(term)
        if id is None:
            return None
        self._ids.add(id)
        self._retire(term.alternatives, [id])
        return Entity(
            id=id,
            name=term.name,
            aliases=tuple(name for name in dict.fromkeys(term.synonyms) if name and name != term.name),
            types=(term.namespace,) if term.namespace else (),
            definition=term.definition,
            xrefs=tuple(dict.fromkeys(xref for xref in (term.id, *term.xrefs) if xref != self._prefix + id)),
            source=term.id.partition(":")[0],
        )

    def _id(self, term: _Fields) -> str | None:
        if not self._prefix:
            if term.id in self._ids:
                raise PelError("comes twice; give every term its own id")
            return term.id
        ids = [xref.removeprefix(self._prefix) for xref in term.xrefs if xref.startswith(self._prefix)]
        if not ids:
            self.skipped[f"terms without an xref {self._prefix}"] += 1
        elif ids[0] in self._ids:
            self.skipped[f"terms whose xref {self._prefix} an earlier term has"] += 1
        else:
            return ids[0]
        return None

    def _retire(self, ids: list[str], successors: list[str]) -> None:
        if not self._prefix and successors:
            self.retired.extend((id, successors[0]) for id in ids)


def _default_namespace(header: Iterable[Any]) -> str:
    names = (str(clause.namespace) for clause in header if clause.raw_tag() == "default-namespace")
    return next(names, "")
