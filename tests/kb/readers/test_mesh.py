"""Entity records from MeSH XML written here."""

import gzip
import tracemalloc

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.readers.mesh import read_mesh

DESCRIPTOR = """
<DescriptorRecord DescriptorClass="1">
 <DescriptorUI>{id}</DescriptorUI>
 <DescriptorName><String>{name}</String></DescriptorName>
 <TreeNumberList><TreeNumber>C23.888.119</TreeNumber><TreeNumber>C01.1</TreeNumber><TreeNumber>G07.1</TreeNumber></TreeNumberList>
 <ConceptList>
  <Concept PreferredConceptYN="N"><ConceptUI>M2</ConceptUI><ConceptName><String>Hyperthermia</String></ConceptName>
   <ScopeNote>Of another concept.</ScopeNote>
   <TermList><Term><TermUI>T4</TermUI><String>Hyperthermia</String></Term></TermList></Concept>
  <Concept PreferredConceptYN="Y"><ConceptUI>M1</ConceptUI><ConceptName><String>{name}</String></ConceptName>
   <ScopeNote>
    An abnormal elevation.
   </ScopeNote>
   <TermList><Term><TermUI>T1</TermUI><String>{name}</String></Term><Term><TermUI>T2</TermUI><String>Pyrexia</String></Term>
    <Term IsPermutedTermYN="Y"><TermUI>T2</TermUI><String>Pyrexia</String></Term></TermList></Concept>
 </ConceptList>
</DescriptorRecord>"""
SUPPLEMENTARY = """
<SupplementalRecord SCRClass="{kind}">
 <SupplementalRecordUI>{id}</SupplementalRecordUI>
 <SupplementalRecordName><String>bevonium</String></SupplementalRecordName>
 <Note>structure given in first source</Note>
 <HeadingMappedToList><HeadingMappedTo><DescriptorReferredTo><DescriptorUI>*D001560</DescriptorUI></DescriptorReferredTo>
 </HeadingMappedTo></HeadingMappedToList>
 <ConceptList><Concept PreferredConceptYN="Y"><TermList><Term><String>bevonium</String></Term>
  <Term><String>piribenzyl</String></Term></TermList></Concept></ConceptList>
</SupplementalRecord>"""

FEVER = Entity(
    "D005334",
    "Fever",
    ("Pyrexia", "Hyperthermia"),
    ("Diseases", "Phenomena and Processes"),
    "An abnormal elevation.",
    source="MeSH",
)
BEVONIUM = Entity(
    "C000002", "bevonium", ("piribenzyl",), ("Chemicals and Drugs",), "structure given in first source", source="MeSH"
)


def descriptors(*ids, name="Fever"):
    records = "".join(DESCRIPTOR.format(id=id, name=name) for id in ids)
    return f'<?xml version="1.0"?>\n<!DOCTYPE X SYSTEM "x.dtd">\n<DescriptorRecordSet>{records}\n</DescriptorRecordSet>'


def supplementary(id="C000002", kind="1"):
    return f"<SupplementalRecordSet>{SUPPLEMENTARY.format(id=id, kind=kind)}</SupplementalRecordSet>"


def test_descriptors_and_supplementary_records(tmp_path):
    (tmp_path / "desc2025.xml").write_text(descriptors("D005334"))
    (tmp_path / "supp2025.xml.gz").write_bytes(gzip.compress(supplementary().encode()))
    (tmp_path / "qual2025.xml").write_text("<QualifierRecordSet/>")
    assert list(read_mesh(tmp_path)) == [FEVER, BEVONIUM]
    assert list(read_mesh(tmp_path / "desc2025.xml")) == [FEVER]


@pytest.mark.parametrize(("kind", "type"), [("3", "Diseases"), ("4", "Organisms")])
def test_the_class_of_a_supplementary_record_is_its_type(tmp_path, kind, type):
    (tmp_path / "supp.xml").write_text(supplementary(kind=kind))
    (entity,) = read_mesh(tmp_path)
    assert entity.types == (type,)


def test_records_are_forgotten(tmp_path):
    path = tmp_path / "desc.xml"
    path.write_text(descriptors(*(f"D{i}" for i in range(3000))))
    tracemalloc.start()
    assert sum(1 for _ in read_mesh(path)) == 3000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            descriptors("D1", "D1"),
            r'desc\.xml: record 2: the id "D1" is that of .*desc\.xml: record 1; give every record',
        ),
        (descriptors("D1", " "), r"desc\.xml: record 2: DescriptorUI is '' and DescriptorName 'Fever'"),
        (descriptors("D1", name=""), r"desc\.xml: record 1: DescriptorUI is 'D1' and DescriptorName ''"),
        (descriptors("NIL"), r'desc\.xml: record 1: the id "NIL" means something else'),
        (descriptors("D1")[:-30], r"desc\.xml:\d+: is not XML at column"),
        (descriptors("D1").replace("Pyrexia", "a\0b"), r"desc\.xml:\d+: is not XML"),
        ("", r"desc\.xml:1: is not XML"),
        ("<QualifierRecordSet/>", r"desc\.xml: holds no MeSH descriptors or supplementary records"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "desc.xml"
    path.write_text(text)
    with pytest.raises(PelError, match=message) as error:
        list(read_mesh(path))
    assert "\n" not in str(error.value)


def test_other_encodings(tmp_path):
    path = tmp_path / "desc.xml"
    path.write_bytes(descriptors("D1", name="Fièvre").encode("latin-1"))
    with pytest.raises(PelError, match=r"desc\.xml:6: is not XML"):
        list(read_mesh(path))
    path.write_bytes(descriptors("D1", name="Fièvre").replace("1.0", '1.0" encoding="latin-1').encode("latin-1"))
    assert next(iter(read_mesh(path))).name == "Fièvre"


def test_an_id_in_both_files(tmp_path):
    (tmp_path / "desc.xml").write_text(descriptors("D1"))
    (tmp_path / "supp.xml").write_text(supplementary(id="D1"))
    with pytest.raises(
        PelError,
        match=r'supp\.xml: record 1: the id "D1" is that of .*desc\.xml: record 1; give every record',
    ):
        list(read_mesh(tmp_path))


def test_a_folder_without_mesh(tmp_path):
    with pytest.raises(PelError, match=r"holds none of desc\*\.xml"):
        list(read_mesh(tmp_path))
