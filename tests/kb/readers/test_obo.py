"""Entity records from an ontology written here."""

import gzip
import sys

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers.obo import read_obo

pytest.importorskip("fastobo")

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
    records = read_obo(write(tmp_path, FEVER, OBSOLETE))
    kb = KnowledgeBase.create(tmp_path / "kb", records, retired=records.retired)
    assert kb.successors(["HP:0001955", "HP:0000057"]) == dict.fromkeys(["HP:0001955", "HP:0000057"], "HP:0001945")


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([FEVER, CHILL, FEVER], r"hp\.obo: term HP:0001945: comes twice; give every term its own id\.$"),
        ([CHILL, "nonsense\n"], r"hp\.obo:7: is not OBO \(expected .*\); mend the line\.$"),
        ([CHILL, "synonym: Shivers EXACT []\n"], r"hp\.obo:7: is not OBO"),
        ([CHILL.replace("Chills", "a\0b")], r"hp\.obo: term HP:0025143: .* has a NUL character"),
        ([OBSOLETE], r"hp\.obo: no term is left"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, terms, message):
    path = write(tmp_path, *terms)
    with pytest.raises(PelError, match=message):
        list(read_obo(path))


def test_other_encodings_and_half_a_gzip_file(tmp_path):
    path = write(tmp_path)
    path.write_bytes((HEADER + CHILL.replace("Chills", "Fièvre")).encode("latin-1"))
    with pytest.raises(PelError, match=r"hp\.obo:6: byte 9 of the line is not UTF-8"):
        list(read_obo(path))
    path = tmp_path / "hp.obo.gz"
    path.write_bytes(gzip.compress((HEADER + FEVER).encode())[:-12])
    with pytest.raises(PelError, match=r"hp\.obo\.gz: is not a whole gzip file"):
        list(read_obo(path))


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastobo", None)
    with pytest.raises(PelError, match=r'needs the package fastobo; run `pip install "spacy-pel\[obo\]"`'):
        read_obo(write(tmp_path, FEVER))
