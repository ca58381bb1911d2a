"""Entity records from small META folders written here."""

from __future__ import annotations

import codecs
import gzip
import random

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers import rrf
from spacy_pel.kb.readers.semantic_types import SemanticType, under
from spacy_pel.kb.readers.umls import read_umls
from spacy_pel.kb.readers.umls_choice import ST21PV_SOURCES, ST21PV_TYPES


def atom(cui, name, sab="MSH", tty="PT", code="D1", flags="P|PF|Y", lat="ENG", suppress="N"):
    ts, stt, preferred = flags.split("|")
    return f"{cui}|{lat}|{ts}|L1|{stt}|S1|{preferred}|A1||||{sab}|{tty}|{code}|{name}|0|{suppress}||"


def definition(cui, text, sab="MSH", suppress="N"):
    return f"{cui}|A1|AT1||{sab}|{text}|{suppress}||"


FEVER = [
    atom("C0000001", "Pyrexia", "SNOMEDCT_US", code="386661006", flags="S|VO|Y"),
    atom("C0000001", "Fever", code="D005334"),
    atom("C0000001", "Fever", "NCI", code="C3038", flags="P|PF|N"),
    atom("C0000001", "Fieber", "MSHGER", code="D005334", lat="GER"),
    atom("C0000001", "Febrile", "MTH", code="NOCODE", flags="S|PF|Y"),
    atom("C0000001", "Old fever", "MSH", "ET", code="D9", flags="S|VO|N", suppress="O"),
]
RELEASE = {
    "MRCONSO": [
        *FEVER,
        atom("C0000002", "Aspirin", "RXNORM", "IN", "1191"),
        atom("C0000003", "Neoplasms", "MSH", "MH", "D009369"),
    ],
    "MRSTY": [
        "C0000001|T184|A2.2.2|Sign or Symptom|AT1||",
        "C0000002|T109|A1.4.1.2.1|Organic Chemical|AT2||",
        "C0000002|T121|A1.4.1.1.1|Pharmacologic Substance|AT3||",
        "C0000003|T191|B2.2.1.2.1.2|Neoplastic Process|AT4||",
    ],
    "MRDEF": [
        definition("C0000001", "Hot, says CHV.", "CHV"),
        definition("C0000001", "Hot, says NCI.", "NCI"),
        definition("C0000001", "Hot, said MSH.", "MSH", "O"),
        definition("C0000002", "An analgesic.", "XYZ"),
    ],
}


def write(folder, **changed):
    folder.mkdir(exist_ok=True)
    for table, rows in (RELEASE | changed).items():
        (folder / f"{table}.RRF").write_text("".join(f"{row}\n" for row in rows), "utf-8")
    return folder


def ids(meta, **options):
    return [entity.id for entity in read_umls(meta, **options)]


def test_concepts(tmp_path):
    records = read_umls(write(tmp_path / "META"))
    assert list(records) == [
        Entity(
            "C0000001",
            "Fever",
            ("Febrile", "Pyrexia"),
            ("T184",),
            "Hot, says NCI.",
            ("MSH:D005334", "NCI:C3038", "SNOMEDCT_US:386661006"),
            "MSH+NCI+MTH+SNOMEDCT_US",
            ("Sign or Symptom",),
        ),
        Entity(
            "C0000002",
            "Aspirin",
            (),
            ("T109", "T121"),
            "An analgesic.",
            ("RXNORM:1191",),
            "RXNORM",
            ("Organic Chemical", "Pharmacologic Substance"),
        ),
        Entity("C0000003", "Neoplasms", (), ("T191",), "", ("MSH:D009369",), "MSH", ("Neoplastic Process",)),
    ]
    assert records.skipped == {"names in other languages": 1, "names that are suppressed": 1}
    assert list(records.retired) == []
    assert list(read_umls(tmp_path)) == list(read_umls(tmp_path / "META"))  # the folder that META is in


def test_mrrank_decides_before_the_flags(tmp_path):
    meta = write(tmp_path / "META", MRRANK=["0400|SNOMEDCT_US|PT|N|", "0300|NCI|PT|N|", "0200|MSH|PT|N|"])
    fever = next(iter(read_umls(meta)))
    assert (fever.name, fever.aliases) == ("Pyrexia", ("Fever", "Febrile"))
    assert fever.source == "SNOMEDCT_US+NCI+MSH+MTH"


def test_choices(tmp_path):
    meta = write(tmp_path / "META")
    (german,) = read_umls(meta, language="GER")
    assert (german.id, german.name, german.definition) == ("C0000001", "Fieber", "Hot, says NCI.")
    by_source = list(read_umls(meta, sources=["SNOMEDCT_US", "MTH"]))
    assert [(e.name, e.aliases, e.definition) for e in by_source] == [("Febrile", ("Pyrexia",), "")]
    assert ids(meta, types=["T121"]) == ["C0000002"]
    assert ids(meta, types=["T184", "T191"]) == ["C0000001", "C0000003"]
    first = next(iter(read_umls(meta, definition_sources=["CHV"])))
    assert first.definition == "Hot, says CHV."


def test_subtree(tmp_path):
    more = [*RELEASE["MRSTY"], "C0000003|T033|A2.2|Finding|AT5||"]
    meta = write(tmp_path / "META", MRSTY=more)
    assert ids(meta, types=["T033"]) == ["C0000003"]
    assert ids(meta, types=["T033"], subtree=True) == ["C0000001", "C0000003"]
    tree = {"T1": "A1.4", "T2": "A1.4.1", "T3": "A1.40", "T4": "B1"}
    types = {tui: SemanticType("", number) for tui, number in tree.items()}
    assert under(["A1.4"], types) == {"T1", "T2"}
    assert under(["A"], types) == {"T1", "T2", "T3"}


def test_preset(tmp_path):
    rows = [
        atom("C0000001", "Fever", "CHV"),
        atom("C0000002", "Virus", "MSH"),
        atom("C0000003", "Aspirin", "RXNORM"),
        atom("C0000004", "Idea", "MSH"),
    ]
    types = [
        "C0000001|T184|A2.2.2|Sign or Symptom|AT1||",
        "C0000002|T005|A1.1.4|Virus|AT1||",
        "C0000003|T109|A1.4.1.2.1|Organic Chemical|AT1||",  # T103 itself has no row
        "C0000004|T078|A2.1|Idea or Concept|AT1||",
    ]
    meta = write(tmp_path / "META", MRCONSO=rows, MRSTY=types)
    assert ids(meta, preset="st21pv") == ["C0000002", "C0000003"]
    assert ids(meta, preset="st21pv", sources=["CHV"]) == ["C0000001"]
    assert ids(meta, preset="st21pv", types=["T078"]) == ["C0000004"]


def test_the_preset_is_that_of_medmentions():
    types = "005 007 017 022 031 033 037 038 058 062 074 082 091 092 097 098 103 168 170 201 204"
    assert set(ST21PV_TYPES) == {f"T{number}" for number in types.split()}
    sources = "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM SNOMEDCT_US"
    assert set(ST21PV_SOURCES) == set(sources.split())


def test_gzip_and_tables_that_are_not_sorted(tmp_path, monkeypatch):
    plain = list(read_umls(write(tmp_path / "META")))
    monkeypatch.setattr(rrf, "SORTED_AT_ONCE", 3)
    shuffled = {table: list(rows) for table, rows in RELEASE.items()}
    for rows in shuffled.values():
        random.Random(1).shuffle(rows)
    assert shuffled["MRCONSO"] != RELEASE["MRCONSO"]
    meta = write(tmp_path / "shuffled", **shuffled)
    for path in list(meta.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = list(read_umls(meta))
    assert [(e.id, e.name, set(e.aliases), set(e.types), e.definition) for e in found] == [
        (e.id, e.name, set(e.aliases), set(e.types), e.definition) for e in plain
    ]


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_id(tmp_path):
    meta, plain = write(tmp_path / "META", **RELEASE), list(read_umls(write(tmp_path / "plain", **RELEASE)))
    for path in meta.iterdir():
        path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert list(read_umls(meta)) == plain


def test_sorting_keeps_the_order_and_the_line_numbers_of_a_concept(tmp_path, monkeypatch):
    monkeypatch.setattr(rrf, "SORTED_AT_ONCE", 2)
    rows = [atom("C0000002", "Aspirin"), *(atom("C0000001", f"name {i}") for i in range(9))]
    meta = write(tmp_path / "META", MRCONSO=rows)
    assert next(iter(read_umls(meta))).aliases == tuple(f"name {i}" for i in range(1, 9))
    (meta / "MRCONSO.RRF").write_text("\n".join([*rows[:4], "C0000001|ENG|", *rows[4:]]))  # no last line break
    with pytest.raises(PelError, match=r"MRCONSO\.RRF:5: the row has 2 columns, MRCONSO has 18"):
        list(read_umls(meta))


def test_retired_cuis_find_their_successor(tmp_path):
    retired = [
        "C0000101|1993AA|SY|||C0000102|N|",  # a chain
        "C0000102|2000AC|SY|||C0000001|Y|",
        "C0000103|2000AC|RO|||C0000002|Y|",  # related is not the same
        "C0000104|2000AC|DEL||||N|",
        "C0000105|2000AC|SY|||C0000404|N|",  # not in the KB
        "C0000106|2000AC|SY|||C0000107|N|",  # in a circle
        "C0000107|2000AC|SY|||C0000106|N|",
    ]
    records = read_umls(write(tmp_path / "META", MRCUI=retired))
    kb = KnowledgeBase.create(tmp_path / "kb", records, retired=records.retired)
    old = [row.split("|")[0] for row in retired]
    assert kb.successors(old) == {"C0000101": "C0000001", "C0000102": "C0000001"}
    assert records.skipped["rows of MRCUI that name no synonym"] == 2


def test_what_is_left_out_is_counted(tmp_path):
    meta = write(
        tmp_path / "META",
        MRCONSO=[*RELEASE["MRCONSO"], atom("C0000005", "Typeless"), atom("C0000006", " ")],
        MRSTY=[*RELEASE["MRSTY"], "C0000004|T191|B2.2.1.2.1.2|Neoplastic Process|AT4||"],
    )
    (meta / "MRDEF.RRF").unlink()
    records = read_umls(meta)
    assert [entity.id for entity in records] == ["C0000001", "C0000002", "C0000003", "C0000005"]
    assert records.skipped == {
        "CUIs without a row in MRCONSO": 1,
        "CUIs with no usable name": 1,
        "names that are empty": 1,
        "names in other languages": 1,
        "names that are suppressed": 1,
        "types of CUIs without a row in MRSTY": 2,
        "definitions, for want of MRDEF": 4,
    }
    filtered = read_umls(meta, types=["T191"])
    assert [entity.id for entity in filtered] == ["C0000003"]
    assert filtered.skipped["CUIs of other types"] == 4


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("MRCONSO", b"C0000009|ENG|P|L1\n", r"MRCONSO\.RRF:9: the row has 4 columns, MRCONSO has 18"),
        ("MRCONSO", atom("C9", "a|b").encode() + b"\n", r"MRCONSO\.RRF:9: the row has 19 columns"),
        ("MRCONSO", atom("", "a").encode() + b"\n", r"MRCONSO\.RRF:9: the row has no CUI"),
        ("MRCONSO", atom("C9", "a\0b").encode() + b"\n", r"MRCONSO\.RRF:9: the row has a NUL character"),
        (
            "MRCONSO",
            atom("C9", "Fièvre").encode("latin-1") + b"\n",
            r"MRCONSO\.RRF:9: byte 39 of the line is not UTF-8",
        ),
        ("MRSTY", b"C0000009|T1|A1|Thing|AT1||\n", r'MRSTY\.RRF:5: "T1\|Thing" is no semantic type'),
        ("MRSTY", b"C0000009|T999|A1||AT1||\n", r'MRSTY\.RRF:5: "T999\|" is no semantic type'),
        ("MRSTY", b"C0000009|T191|A1|Tumour|AT1||\n", r'MRSTY\.RRF:5: T191 is "Tumour" here and "Neoplastic Process"'),
        ("MRSTY", b"C0000009|T191\n", r"MRSTY\.RRF:5: the row has 2 columns, MRSTY has 6"),
        ("MRDEF", b"C0000009|A1|\n", r"MRDEF\.RRF:5: the row has 2 columns, MRDEF has 8"),
        ("MRRANK", b"high|MSH|PT|N|\n", r'MRRANK\.RRF:1: the rank "high" is not a number'),
        ("MRCUI", b"C0000009|2000AA|SY\n", r"MRCUI\.RRF:1: the row has 3 columns, MRCUI has 7"),
    ],
)
def test_a_bad_row_is_named_and_leaves_nothing(tmp_path, table, row, message):
    meta = write(tmp_path / "META")
    with (meta / f"{table}.RRF").open("ab") as file:
        file.write(row)
    with pytest.raises(PelError, match=message) as error:
        records = read_umls(meta)
        KnowledgeBase.create(tmp_path / "kb", records, retired=records.retired)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["META"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": ["T047", "T184"]}, r"--types T047: .*MRSTY\.RRF has no such type; it has T109, T121, T184, T191"),
        ({"sources": ["MSH", "MESH"]}, r"--sources MESH: .* has no such source; it has MSH, MSHGER, MTH"),
        ({"subtree": True}, "--subtree: adds the descendants of --types; name some"),
        ({"preset": "st22"}, '--preset: "st22" is not known; use st21pv'),
        ({"language": "FRE"}, r"no concept is left by this choice of --language"),
    ],
)
def test_choices_that_the_release_does_not_have(tmp_path, options, message):
    meta = write(tmp_path / "META")
    with pytest.raises(PelError, match=message):
        list(read_umls(meta, **options))


def test_a_folder_that_is_no_release(tmp_path):
    meta = write(tmp_path / "META")
    (meta / "MRSTY.RRF").unlink()
    with pytest.raises(PelError, match=r"META/MRSTY\.RRF: is missing, as is MRSTY\.RRF\.gz"):
        read_umls(meta)
    with pytest.raises(PelError, match=r"MRCONSO\.RRF: is missing"):
        read_umls(tmp_path / "nowhere")
    with pytest.raises(PelError, match=r"no concept is left"):
        list(read_umls(write(tmp_path / "empty", MRCONSO=[], MRSTY=[], MRDEF=[])))
