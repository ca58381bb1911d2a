"""Entity records from an ontology written here."""

import gzip
import re

import pytest
from project_files import DATA, needs_data
from reading import read_all

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers.obo import read_obo

HEADER = "format-version: 1.4\ndefault-namespace: phenotypes\n"
FEVER = r"""
[Term]
id: HP:0001945
name: Fever
namespace: human_phenotype
alt_id: HP:0001955
def: "A \"high\" body temperature." [HPO:x]
comment: Not hyperthermia.
synonym: "Pyrexia" EXACT layperson [ORCID:1]
synonym: "Pyrexia" EXACT []
synonym: "Fever" EXACT []
synonym: "Hyperthermia" RELATED []
synonym: "Fever of infection" NARROW []
xref: UMLS:C0015967
xref: UMLS:C9999999
xref: MESH:D005334 "Fever"
is_a: HP:0004370 ! Abnormality of temperature regulation
"""
CHILL = """
[Term]
id: HP:0025143
name: Chills
"""
OBSOLETE = """
[Term]
id: HP:0000057
name: obsolete Clitoromegaly
is_obsolete: true
replaced_by: HP:0001945
"""
NAMELESS = """
[Term]
id: HP:0000007
xref: UMLS:C1
"""
OTHER = """
[Term]
id: HP:0000010
name: Pyrexia of another kind
xref: UMLS:C0015967

[Typedef]
id: part_of
name: part of
"""


def write(tmp_path, *terms):
    path = tmp_path / "hp.obo"
    path.write_text(HEADER + "".join(terms), "utf-8")
    return path


def test_terms(tmp_path):
    path = write(tmp_path, FEVER, OBSOLETE, NAMELESS, CHILL, OTHER)
    records = read_obo(path)
    fever, chill, other = records
    assert fever == Entity(
        "HP:0001945",
        "Fever",
        ("Pyrexia",),
        ("human_phenotype",),
        'A "high" body temperature.',
        ("UMLS:C0015967", "UMLS:C9999999", "MESH:D005334"),
        "HP",
    )
    assert chill == Entity("HP:0025143", "Chills", types=("phenotypes",), source="HP")
    assert other.id == "HP:0000010"
    assert records.skipped == {"terms that are obsolete": 1, "terms without a name": 1}
    zipped = tmp_path / "hp.obo.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_obo(zipped)) == [fever, chill, other]


def test_scopes(tmp_path):
    path = write(tmp_path, FEVER)
    (fever,) = read_obo(path, scopes=["exact", "RELATED"])
    assert fever.aliases == ("Pyrexia", "Hyperthermia")
    with pytest.raises(PelError, match='--scopes: "CLOSE" is not a scope; use EXACT, NARROW, BROAD, RELATED'):
        read_obo(path, scopes=["CLOSE"])


def test_relational_adjectives_are_names(tmp_path):
    adjectives = """property_value: has_relational_adjective "febrile" xsd:string
property_value: UBPROP:0000007 "pyretic \\"sic\\"" xsd:string {source="x"}
property_value: has_relational_adjective "Fever" xsd:string
property_value: has_relational_adjective febrile_without_quotes
property_value: homology_notes "no name" xsd:string
"""
    (fever,) = records = read_obo(write(tmp_path, FEVER.rstrip("\n") + "\n" + adjectives + "\n"), scopes=["EXACT"])
    assert fever.aliases == ("Pyrexia", "febrile", 'pyretic "sic"') and not records.skipped


def test_an_xref_as_id(tmp_path):
    path = write(tmp_path, FEVER, OBSOLETE, NAMELESS, CHILL, OTHER)
    records = read_obo(path, id_prefix="UMLS")
    (fever,) = records
    assert (fever.id, fever.xrefs) == ("C0015967", ("HP:0001945", "UMLS:C9999999", "MESH:D005334"))
    assert records.skipped["terms without an xref UMLS:"] == 1
    assert records.skipped["terms whose xref UMLS: an earlier term has"] == 1
    assert list(records.retired) == []
    with pytest.raises(PelError, match=r"hp\.obo: no term is left; give an OBO file, or another --id-prefix"):
        list(read_obo(path, id_prefix="SNOMED"))


def test_alternative_and_replaced_ids_are_retired(tmp_path):
    records = read_obo(write(tmp_path, FEVER, OBSOLETE, "alt_id: HP:0008665\n"))
    kb = KnowledgeBase.create(tmp_path / "kb", records, retired=records.retired)
    assert kb.successors() == dict.fromkeys(["HP:0001955", "HP:0000057", "HP:0008665"], "HP:0001945")


def test_what_is_replaced_by_what_is_replaced_is_followed(tmp_path):
    replaced = {"A:1": "A:2", "A:2": "A:3", "A:4": "A:33", "A:5": "A:6", "A:6": "A:5", "A:7": "A:8"}
    terms = [f"\n[Term]\nid: {old}\nname: x\nis_obsolete: true\nreplaced_by: {new}\n" for old, new in replaced.items()]
    terms.append("\n[Term]\nid: A:3\nname: y\nalt_id: A:33\n")
    terms.append("\n[Term]\nid: A:8\nname: z\n\n[Term]\nid: A:9\nname: claims what is there\nalt_id: A:8\n")
    records = read_obo(write(tmp_path, *terms))
    kb = KnowledgeBase.create(tmp_path / "kb", records, retired=records.retired)
    assert kb.successors() == dict.fromkeys(["A:1", "A:2", "A:4", "A:33"], "A:3") | {"A:7": "A:8"}


# Lines as real ontologies have them, what is read of them, and what a strict reader says of the first.
BROKEN = {
    r"xref: http://en.wikipedia.org/wiki/File\:Gray793.png": (),
    r"xref: http://example.org/a\,%20b.htm": (),
    r"xref: PMID:14699587 \n": (),
    "xref: PHENOSCAPE: wd": (),
    'def: "A bone." [TAO:Bird and Mabee 2003]': "A bone.",
    'def: "A bone." [ isbn 0080923437]': "A bone.",
    r'def: "A bone." [:ISBN 3-89937-052-X [Goujet and Young\, 2004\]]': "A bone.",
    'def: "A \\"bone\\"."': 'A "bone".',
    "def: A bone.": "",
    'def: "A bone. []': "",
    'synonym: "os" EXACT [TAO:Bird and Mabee 2003]': ("os",),
    'synonym: "os" EXACT': ("os",),
    'synonym: "os" []': (),
    "synonym: os EXACT []": (),
    'synonym: "os EXACT []': (),
    "is_obsolete: maybe": (),
    "namespace: two words": (),
    "no tag at all": (),
    "no\ttag": (),
    "alt_id:": (),
    'xref: A:1 {source="x"': (),
}
BONE = "\n[Term]\nid: X:1\nname: bone\n"


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_line_costs_at_most_that_line(tmp_path, line):
    path = write(tmp_path, BONE, line, '\nsynonym: "hard part" EXACT []\nxref: Y:1\n', CHILL)
    (bone, chill), warned = read_all(read_obo(path))
    aliases, definition = (BROKEN[line], "") if isinstance(BROKEN[line], tuple) else ((), BROKEN[line])
    assert bone == Entity("X:1", "bone", (*aliases, "hard part"), ("phenotypes",), definition, ("Y:1",), "X")
    assert chill.id == "HP:0025143"
    assert len(warned) == 1 and warned[0].startswith(f"{path}:7: is not OBO (expected `")
    with pytest.raises(PelError, match=r"hp\.obo:7: is not OBO \(expected `.*`\); mend the line\.$"):
        list(read_obo(path, strict=True))


def test_a_line_that_is_right(tmp_path):
    lines = r"""
[Term] ! a comment
id: X:1 {source="Y:1"} ! of its own
name: bone \{really\} \! ! a comment
namespace: two\ words
def: "A\nbone, \"hard\"\Wone." [Y:1 "text, [with] all", http://x.org/y?z=1 , Y\:2\,3] {source="Y:2", n="1"} ! a comment
synonym: "os" EXACT LATIN [] {source="Y"}
synonym:"ossum" EXACT [Y:1]
xref: http://x.org/y#z "a page"
xref: Y\:4 ! a comment
xref: Y:5 {source="a } b"}
! a comment
property_value: anything http://x.org/File\:y xsd:string
is_obsolete: false
"""
    path = write(tmp_path, lines)
    (bone,), warned = read_all(read_obo(path, strict=True))
    xrefs = ("http://x.org/y#z", "Y:4", "Y:5")
    definition = 'A\nbone, "hard" one.'
    assert bone == Entity("X:1", "bone {really} !", ("os", "ossum"), ("two words",), definition, xrefs, "X")
    assert not warned


@pytest.mark.parametrize("braces", ["{}", "{ }", '{source="Y:1", n="1"}', "{ n = 1 } ! a comment"])
def test_qualifiers_behind_a_name_are_no_part_of_it(tmp_path, braces):
    (bone,), warned = read_all(read_obo(write(tmp_path, f"[Term]\nid: X:1\nname: bone {braces}\n"), strict=True))
    assert bone.name == "bone" and not warned


@pytest.mark.parametrize("name", ["poly{ethylene}", "N-{[4-(x)]amino}", "6,6'-di{1-[(1R)-1-ethyl]-beta-D}", "a {b"])
def test_braces_in_a_name_are_read_with_a_warning(tmp_path, name):
    (term,), warned = read_all(read_obo(write(tmp_path, f"[Term]\nid: X:1\nname: {name}\n")))
    assert term.name == name and "hp.obo:5: is not OBO (expected `name: text`)" in warned[0]


def test_five_broken_lines_are_named_and_all_counted(tmp_path):
    path = write(tmp_path, BONE, "xref: a b\n" * 7 + "xref: Y:1\n" * 7)
    records = read_obo(path)
    found, warned = read_all(records)
    assert len(found) == 1
    assert [warning.partition(": ")[0] for warning in warned[:-1]] == [f"{path}:{line}" for line in range(7, 12)]
    assert warned[-1] == f"{path}: 7 lines in all are not right"
    assert records.skipped == {"lines that are not right": 7}


@pytest.mark.parametrize(
    ("terms", "left", "message"),
    [
        ([FEVER, CHILL, FEVER], 2, r"hp\.obo:25: the id \"HP:0001945\" is that of line 4 too; give every term its own"),
        ([CHILL, BONE.replace("[Term]", "[Term")], 1, r"hp\.obo:8: is not OBO \(expected `\[Term\]`\)"),
        ([CHILL, BONE.replace("[Term]", "")], 1, r"hp\.obo:9: the id stands within another term; write \[Term\]"),
        ([CHILL, BONE.replace("X:1", "A|B")], 1, r"hp\.obo:8: the id \"A\|B\" means something else"),
        ([CHILL, BONE.replace("id: X:1\n", "")], 1, r"hp\.obo:8: the term has no id; give it one"),
        ([CHILL, BONE.replace("bone", "a\0b")], 1, r"hp\.obo:10: the line has a NUL character"),
        ([CHILL, BONE, f'def: "{"x" * (1 << 20)}" []\n'], 2, r"hp\.obo:11: the line has .* over 1,048,576 characters"),
    ],
)
def test_what_costs_a_term(tmp_path, terms, left, message):
    path = write(tmp_path, *terms)
    found, warned = read_all(read_obo(path))
    assert len(found) == left and len(warned) == 1 and re.search(message, warned[0])
    with pytest.raises(PelError, match=message):
        list(read_obo(path, strict=True))


def test_a_broken_id_costs_the_term(tmp_path):
    path = write(tmp_path, CHILL, BONE.replace("X:1", "X 1"))
    found, warned = read_all(read_obo(path))
    assert len(found) == 1 and [warning.split(": ")[0] for warning in warned] == [f"{path}:9", f"{path}:8"]
    with pytest.raises(PelError, match=r"hp\.obo:9: is not OBO \(expected `id: ID`\)"):
        list(read_obo(path, strict=True))


def test_no_term_is_left(tmp_path):
    with pytest.raises(PelError, match=r"hp\.obo: no term is left; .* Left out: 1 terms that are obsolete\.$"):
        list(read_obo(write(tmp_path, OBSOLETE)))
    path = write(tmp_path, CHILL.replace("Chills", "a\0b"))
    with pytest.raises(PelError, match=r"hp\.obo: no term is left; .*1 terms without a name\. .*hp\.obo:6: the line"):
        read_all(read_obo(path))
    path.write_text("id,name\nD1,Fever\n")
    with pytest.raises(PelError, match=r"hp\.obo:1: is not OBO .* Not right: 2 of 2 lines\. More than 50 %"):
        list(read_obo(path))


def test_other_encodings_and_half_a_gzip_file(tmp_path):
    path = write(tmp_path)
    path.write_bytes((HEADER + CHILL.replace("Chills", "Fièvre") + BONE).encode("latin-1"))
    (bone,), warned = read_all(read_obo(path))
    assert bone.name == "bone" and warned == [f"{path}:6: byte 9 of the line is not UTF-8; save the file as UTF-8."]
    path.write_bytes(b"\xef\xbb\xbf" + CHILL.strip().replace("\n", "\r\n").encode())
    assert [entity.name for entity in read_obo(path)] == ["Chills"]
    path = tmp_path / "hp.obo.gz"
    path.write_bytes(gzip.compress((HEADER + FEVER).encode())[:-12])
    with pytest.raises(PelError, match=r"hp\.obo\.gz: is not a whole gzip file"):
        list(read_obo(path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tag", ["id", "name", "xref", "def", "synonym", "is_obsolete", "[Term]"])
def test_hostile_lines_take_linear_time(tmp_path, tag):
    starts = ("", '"', '"a" ', '"a" [', '"a" EXACT ', '"a" EXACT [')
    parts = ("a", " ", "\\", "\\a", '"', '"a",', "a, ", 'a "b", ', "{", '{"a"', "}", "!", "[", "]", "http://", "a\\ ")
    lines = [f"{tag}: {start}{part * (100_000 // len(part))} \x01(" for start in starts for part in parts]
    path = write(tmp_path, BONE, "\n".join(lines), "\nname: bone" * len(lines))
    assert len(read_all(read_obo(path))[0]) == 1


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "terms", "broken", "first"), [("uberon", 13080, 31, 78225), ("so", 2179, 1, 8534), ("cl", 2068, 3, 18191)]
)
def test_real_ontologies(name, terms, broken, first):
    path = DATA / "craft" / f"{name}.obo"
    records = read_obo(path)
    entities, warned = read_all(records)
    assert len(entities) == len({entity.id for entity in entities}) == terms
    # No definition is lost: where a line of one is broken, it is so in the brackets.
    with path.open(encoding="utf-8") as file:
        stanzas = [stanza for stanza in file.read().split("\n\n") if stanza.startswith("[Term]")]
    kept = [stanza for stanza in stanzas if "\nis_obsolete: true" not in stanza]
    assert sum(bool(entity.definition) for entity in entities) == sum("\ndef: " in stanza for stanza in kept)
    assert records.skipped["lines that are not right"] == broken and len(warned) == min(broken, 5) + (broken > 5)
    assert warned[0].startswith(f"{path}:{first}: is not OBO")
    with pytest.raises(PelError, match=rf"{name}\.obo:{first}: is not OBO \(expected .*\); mend the line"):
        list(read_obo(path, strict=True))
