"""What holds for every reader: options, gzip, names that are too long, scispaCy's own format."""

import gzip
from pathlib import Path

import pytest
from on_disk import write_lines

from spacy_pel.errors import PelError
from spacy_pel.files.lines import unpacked_suffix
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers import READERS, read


def test_options_that_are_not_set_do_not_matter(tmp_path):
    path = write_lines(tmp_path / "kb.jsonl", [{"id": "D1", "name": "Fever"}])
    for given in (path, str(path)):
        assert list(read("jsonl", given, types=[], language="", subtree=False)) == [Entity("D1", "Fever")]


@pytest.mark.parametrize(
    ("format", "option", "message"),
    [
        ("jsonl", {"language": "ENG"}, "--language: is for umls, not for jsonl; leave it out"),
        ("umls", {"id_prefix": "UMLS"}, "--id-prefix: is for obo, not for umls; leave it out"),
        ("obo", {"columns": ["id=x"]}, "--columns: is for csv, not for obo; leave it out"),
        ("xls", {}, '--format: "xls" is not known; use jsonl, csv, umls'),
    ],
)
def test_an_option_that_the_format_does_not_take(tmp_path, format, option, message):
    with pytest.raises(PelError, match=message):
        read(format, tmp_path / "not read", **option)


@pytest.mark.parametrize("format", ["csv", "jsonl", "scispacy"])
def test_gzip(tmp_path, format):
    texts = {
        "csv": "id,name\nD1,Fever\n",
        "jsonl": '{"id": "D1", "name": "Fever"}\n',
        "scispacy": '{"concept_id": "D1", "canonical_name": "Fever"}\n',
    }
    path = tmp_path / "kb.gz"
    path.write_bytes(gzip.compress(texts[format].encode()))
    assert list(read(format, path)) == [Entity("D1", "Fever")]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(PelError, match=r"kb\.gz: is not a whole gzip file .*; download it again"):
        list(read(format, path))
    path.write_text(texts[format])
    with pytest.raises(PelError, match=r"kb\.gz: is not a whole gzip file .*; download it again"):
        list(read(format, path))


@pytest.mark.parametrize("name", ["kb.CSV", "kb.Tsv", "kb.csv.GZ", "kb.TSV.Gz", "kb.JSONL", "kb.OBO.gz"])
def test_the_case_of_a_suffix_does_not_matter(tmp_path, name):
    texts = {
        ".csv": "id,name\nD1,Fever\n",
        ".tsv": "id\tname\nD1\tFever\n",
        ".jsonl": '{"id": "D1", "name": "Fever"}\n',
        ".obo": "[Term]\nid: D1\nname: Fever\n",
    }
    text = texts[unpacked_suffix(Path(name))].encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.lower().endswith(".gz") else text)
    assert [(entity.id, entity.name) for entity in read(None, tmp_path / name)] == [("D1", "Fever")]


def test_names_of_10000_characters_are_left_out_and_counted(tmp_path):
    long = "x" * 10_000
    given = [
        {"id": "D1", "name": "Fever", "aliases": [long, "Pyrexia"]},
        {"id": "D2", "name": long, "aliases": ["Aspirin", "ASA"]},
        {"id": "D3", "name": long},
        {"id": "D4", "name": "y" * 3000},
    ]
    records = read("jsonl", write_lines(tmp_path / "kb.jsonl", given))
    assert list(records) == [
        Entity("D1", "Fever", ("Pyrexia",)),
        Entity("D2", "Aspirin", ("ASA",)),
        Entity("D4", "y" * 3000),
    ]
    assert records.skipped == {"names of more than 3,000 characters": 3, "entities with no shorter name": 1}


@pytest.mark.parametrize("field", ["id", "name", "definition"])
def test_nul_characters(tmp_path, field):
    path = write_lines(tmp_path / "kb.jsonl", [{"id": "D1", "name": "Fever"} | {field: "a\0b"}])
    with pytest.raises(
        PelError, match=r"kb\.jsonl:1: .* has a NUL character in its texts; remove it\. Not right: 1 of 1 "
    ):
        list(read("jsonl", path))


def test_a_type_name_for_every_type(tmp_path):
    path = write_lines(
        tmp_path / "kb.jsonl", [{"id": "D1", "name": "Fever", "types": ["T184"], "type_names": ["Sign", "x"]}]
    )
    with pytest.raises(
        PelError, match=r'kb\.jsonl:1: "D1" has 1 types and 2 names; name each type\. Not right: 1 of 1 '
    ):
        list(read("jsonl", path))


@pytest.mark.parametrize("format", ["jsonl", "scispacy"])
def test_blank_values_are_left_out_and_counted(tmp_path, format):
    lists = {"aliases": ["", "Pyrexia", " \t"], "types": ["T184", "", "T033"]}
    if format == "jsonl":
        lists |= {"xrefs": [" ", "MESH:D005334"], "type_names": ["Sign or Symptom", "none", "Finding"]}
    keys = ("id", "name") if format == "jsonl" else ("concept_id", "canonical_name")
    path = write_lines(tmp_path / "kb.jsonl", [dict(zip(keys, ("D1 ", "Fever"), strict=True)) | lists])
    records = read(format, path)
    (fever,) = records
    assert fever.id == "D1"
    assert (fever.aliases, fever.types) == (("Pyrexia",), ("T184", "T033"))
    blank = {"aliases": 2, "types": 1}
    if format == "jsonl":
        assert (fever.xrefs, fever.type_names) == (("MESH:D005334",), ("Sign or Symptom", "Finding"))
        blank["xrefs"] = 1
    assert records.skipped == {f'values of "{key}" that are blank': count for key, count in blank.items()}


def test_scispacy(tmp_path):
    record = {
        "concept_id": "C0015967",
        "canonical_name": "Fever",
        "aliases": ["Fever", "Pyrexia", "Pyrexia"],
        "types": ["T184"],
        "definition": "Hot.",
    }
    path = write_lines(
        tmp_path / "kb.jsonl", [record, {"concept_id": "C2", "canonical_name": "Chill", "definition": None}]
    )
    assert list(read("scispacy", path)) == [
        Entity("C0015967", "Fever", ("Pyrexia",), ("T184",), "Hot."),
        Entity("C2", "Chill"),
    ]
    with pytest.raises(PelError, match=r'kb\.jsonl:1: it has a "concept_id" .*; say --format scispacy'):
        list(read(None, path))
    write_lines(path, [record, {"concept_id": "C2"}])
    with pytest.raises(PelError, match=r'kb\.jsonl:2: "canonical_name" is missing or empty'):
        list(read("scispacy", path))
    write_lines(path, [record, record])
    with pytest.raises(PelError, match=r'kb\.jsonl:2: the id "C0015967" is that of line 1'):
        list(read("scispacy", path))


def test_a_kb_keeps_type_names_and_successors(tmp_path):
    entities = [
        Entity("C1", "Fever", types=("T184", "T033"), type_names=("Sign or Symptom", "Finding")),
        Entity("C2", "Aspirin"),
    ]
    retired = [("C8", "C1"), ("C9", "C404"), ("C2", "C1")]  # of an unknown one, and of one that is there
    kb = KnowledgeBase.create(tmp_path / "kb", entities, retired=retired)
    assert list(kb.entities()) == entities and kb["C1"] == entities[0]
    assert kb.successors(["C8", "C9", "C2", "C1"]) == {"C8": "C1"}
    assert kb.meta["counts"]["retired"] == 1
    copy = kb.copy_to(tmp_path / "copy")
    assert copy["C1"].type_names == ("Sign or Symptom", "Finding") and copy.successors(["C8"]) == {"C8": "C1"}
    without = KnowledgeBase.create(tmp_path / "without", entities[1:])
    assert without.successors(["C8"]) == {} and "retired" not in without.meta["counts"]


def test_every_format_is_named_as_the_file_that_reads_it():
    assert {reader.__module__.rpartition(".")[2] for reader in READERS.values()} == set(READERS)
