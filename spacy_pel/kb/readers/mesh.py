"""Entity records from NLM's MeSH XML: descriptors and supplementary records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from ...errors import PelError
from ..entity import Entity
from .faults import Faults
from .records import Records
from .rows import check_once
from .xml_records import elements

KINDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}
FILES = ("desc*.xml", "desc*.gz", "supp*.xml", "supp*.gz")

TREES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographicals",
}
# Supplementary records stand in no tree; their class says the category, "2" (protocols) that of techniques.
CLASSES = {"1": "D", "2": "E", "3": "C", "4": "B", "5": "M", "6": "A"}


def read_mesh(path: Path, *, strict: bool = False) -> Records:
    """Stream the records of a file like desc2025.xml or supp2025.gz, or of all such files in a folder, plain or .gz.

    The names are those of the record and of the terms of all its concepts, the preferred concept's first. The
    definition is the preferred concept's scope note, else the note of the record; the types are the names of its tree
    categories. A record that is not XML, that has no id or name, or that has the id of another is left out with a
    warning.

    Args:
        path: The file or folder.
        strict: Such a record is an error.

    Raises:
        PelError: More than one record in a hundred is left out (with the first of them), or a file is not XML, breaks
            off, or has no such records.
    """
    skipped: Counter[str] = Counter()
    return Records(_stream(Path(path), skipped, strict), skipped)


def _stream(path: Path, skipped: Counter[str], strict: bool) -> Iterator[Entity]:
    places: dict[str, str] = {}
    for file in _files(path) if path.is_dir() else [path]:
        faults = Faults(file, skipped, strict=strict)

        def unique(number: int, record: Element, file: Path = file) -> Entity:
            entity = _entity(record)
            check_once(places, entity.id, f"{file}: record {number}", "record")
            return entity

        yield from faults.parsed(elements(faults, KINDS), unique, place=": record {}")
        if not faults.good:
            raise PelError(f"{file}: holds no MeSH descriptors or supplementary records; give desc*.xml or supp*.xml.")


def _files(folder: Path) -> list[Path]:
    files = [file for pattern in FILES for file in sorted(folder.glob(pattern))]
    if not files:
        raise PelError(f"{folder}: holds none of {', '.join(FILES)}; put NLM's MeSH files there.")
    return files


def _entity(record: Element) -> Entity:
    kind = KINDS[record.tag]
    id, name = _text(record, f"{kind}UI"), _text(record, f"{kind}Name/String")
    if not (id and name):
        raise PelError(f"{kind}UI is {id!r} and {kind}Name {name!r}; mend the record or download the file again")
    concepts = sorted(record.iterfind("ConceptList/Concept"), key=lambda c: c.get("PreferredConceptYN") != "Y")
    terms = (term.text or "" for concept in concepts for term in concept.iterfind("TermList/Term/String"))
    return Entity(
        id=id,
        name=name,
        aliases=tuple(_others(name, terms)),
        types=tuple(dict.fromkeys(TREES.get(letter, letter) for letter in _categories(record))),
        definition=(_text(concepts[0], "ScopeNote") if concepts else "") or _text(record, "Note"),
        source="MeSH",
    )


def _text(element: Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _others(name: str, terms: Iterable[str]) -> Iterator[str]:
    return (term for term in dict.fromkeys(map(str.strip, terms)) if term and term != name)


def _categories(record: Element) -> Iterator[str]:
    if (kind := record.get("SCRClass")) in CLASSES:
        yield CLASSES[kind]
    for tree in record.iterfind("TreeNumberList/TreeNumber"):
        yield (tree.text or "").strip()[:1]
