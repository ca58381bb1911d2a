"""Entity records from NLM's MeSH XML: descriptors and supplementary records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ...errors import PelError
from ...files.lines import opened
from ..entity import Entity

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


def read_mesh(path: Path) -> Iterator[Entity]:
    """Stream the records of a file like desc2025.xml or supp2025.gz, or of all such files in a folder, plain or .gz.

    The names are those of the record and of the terms of all its concepts, the preferred concept's first. The
    definition is the preferred concept's scope note, else the note of the record; the types are the names of its tree
    categories.

    Raises:
        PelError: A file is not XML or has no such records, a record has no id or name, or an id comes twice (with the
            line or record).
    """
    path = Path(path)
    files = _files(path) if path.is_dir() else [path]
    places: dict[str, str] = {}
    for file in files:
        count = 0
        for count, record in enumerate(_records(file), start=1):
            place = f"{file}: record {count}"
            try:
                entity = _entity(record)
                if entity.id in places:
                    raise PelError(f'the id "{entity.id}" is that of {places[entity.id]} too; give it once')
            except PelError as error:
                raise PelError(f"{place}: {error}.") from error
            places[entity.id] = place
            yield entity
        if not count:
            raise PelError(f"{file}: holds no MeSH descriptors or supplementary records; give desc*.xml or supp*.xml.")


def _files(folder: Path) -> list[Path]:
    files = [file for pattern in FILES for file in sorted(folder.glob(pattern))]
    if not files:
        raise PelError(f"{folder}: holds none of {', '.join(FILES)}; put NLM's MeSH files there.")
    return files


def _records(path: Path) -> Iterator[Element]:
    """Every record, forgotten once the next one is asked for."""
    with opened(path) as file:
        try:
            events = ElementTree.iterparse(file, events=("start", "end"))
            _, root = next(events)
            for event, element in events:
                if event == "end" and element.tag in KINDS:
                    yield element
                    root.clear()
        except ElementTree.ParseError as error:
            line, column = error.position
            raise PelError(f"{path}:{line}: is not XML at column {column} ({error}); download it again.") from error


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
