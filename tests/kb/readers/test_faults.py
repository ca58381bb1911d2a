"""Records that are not right, in every format: left out with a warning, an error if they are many or with `strict`."""

from __future__ import annotations

import json
import random
import warnings

import pytest
from reading import read_all

from spacy_pel.errors import PelError
from spacy_pel.files import lines
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers import read

GOOD = 300


def csv_file(folder, bad):
    rows = [f"D{i},name {i}" for i in range(GOOD)] + [f"E{i}," for i in range(bad)]
    return written(folder / "kb.csv", "\n".join(["id,name", *rows]) + "\n"), ":302"


def jsonl_file(folder, bad):
    rows = [json.dumps({"id": f"D{i}", "name": f"name {i}"}) for i in range(GOOD)] + ['{"id": "E"}'] * bad
    return written(folder / "kb.jsonl", "\n".join(rows) + "\n"), ":301"


def scispacy_file(folder, bad):
    rows = [json.dumps({"concept_id": f"D{i}", "canonical_name": f"name {i}"}) for i in range(GOOD)]
    return written(folder / "kb.jsonl", "\n".join([*rows, *["[]"] * bad]) + "\n"), ":301"


def zeshel_file(folder, bad):
    rows = [json.dumps({"document_id": f"D{i}", "title": "x", "text": f"x {i}"}) for i in range(GOOD)]
    return written(folder / "lego.json", "\n".join([*rows, *['{"document_id": "E"}'] * bad]) + "\n"), ":301"


def kilt_file(folder, bad):
    rows = [json.dumps({"wikipedia_id": f"{i}", "wikipedia_title": "x", "text": ["x", f"{i}"]}) for i in range(GOOD)]
    return written(folder / "kilt.json", "\n".join([*rows, *['{"wikipedia_id": "E"}'] * bad]) + "\n"), ":301"


def mesh_record(id):
    return (
        f"<DescriptorRecord><DescriptorUI>{id}</DescriptorUI>"
        f"<DescriptorName><String>{id and 'a name'}</String></DescriptorName></DescriptorRecord>\n"
    )


def mesh_written(folder, records):
    return written(folder / "desc.xml", f"<DescriptorRecordSet>{''.join(records)}</DescriptorRecordSet>")


def mesh_file(folder, bad):
    records = [mesh_record(f"D{i}") for i in range(GOOD)] + [mesh_record("")] * bad
    return mesh_written(folder, records), ": record 301"


def mesh_file_of_broken_xml(folder, bad):
    records = [mesh_record(f"D{i}") for i in range(GOOD)] + ["<DescriptorRecord>a & b</DescriptorRecord>\n"] * bad
    return mesh_written(folder, records), ":301"


def umls_files(folder, bad):
    names = [f"C{i:07}|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|D1|name {i}|0|N||" for i in range(GOOD)]
    types = [f"C{i:07}|T184|A2.2.2|Sign or Symptom|AT1||" for i in range(GOOD)]
    (folder / "META").mkdir()
    path = written(folder / "META" / "MRCONSO.RRF", "\n".join(names + ["C9|ENG"] * bad) + "\n")
    written(folder / "META" / "MRSTY.RRF", "\n".join(types) + "\n")
    return path, ":301"


FORMATS = {
    "csv": csv_file,
    "jsonl": jsonl_file,
    "scispacy": scispacy_file,
    "mesh": mesh_file,
    "mesh, broken XML": mesh_file_of_broken_xml,
    "umls": umls_files,
    "zeshel": zeshel_file,
    "kilt": kilt_file,
}


def written(path, text):
    path.write_text(text, "utf-8")
    return path


def records_of(format, path, **options):
    return read(format.split(",")[0], path.parent if format == "umls" else path, **options)


@pytest.mark.parametrize("format", FORMATS)
def test_one_bad_record_is_left_out_and_named(tmp_path, format):
    path, place = FORMATS[format](tmp_path, 1)
    records = records_of(format, path)
    found, warned = read_all(records)
    assert len(found) == GOOD and len(warned) == 1 and warned[0].startswith(f"{path}{place}: ")
    assert records.skipped["records that are not right"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_strict(tmp_path, format):
    path, place = FORMATS[format](tmp_path, 1)
    with pytest.raises(PelError) as error:
        list(records_of(format, path, strict=True))
    assert str(error.value).startswith(f"{path}{place}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize("format", FORMATS)
def test_more_than_one_in_a_hundred_is_an_error_and_nothing_is_written(tmp_path, format):
    path, place = FORMATS[format](tmp_path, 4)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(PelError) as error:
        KnowledgeBase.create(tmp_path / "kb", records_of(format, path))
    assert str(error.value).startswith(f"{path}{place}: ")
    assert "Not right: 4 of 304 records. More than 1 % is too much to leave out: mend the file" in str(error.value)
    assert not caught and not (tmp_path / "kb").exists()


def test_five_are_named_and_all_counted(tmp_path):
    rows = [f"D{i},name" if i % 150 else f"D{i}" for i in range(1500)]
    path = written(tmp_path / "kb.csv", "\n".join(["id,name", *rows]))
    records = read("csv", path)
    found, warned = read_all(records)
    assert len(found) == 1490 and len(warned) == 6
    assert [warning.split(": ")[0] for warning in warned[:5]] == [f"{path}:{2 + 150 * i}" for i in range(5)]
    assert warned[5] == f"{path}: 10 records in all are not right"
    assert records.skipped["records that are not right"] == 10


def test_each_table_of_a_release_is_counted_by_itself(tmp_path):
    umls_files(tmp_path, 0)
    meta = tmp_path / "META"
    with (meta / "MRSTY.RRF").open("a") as file:
        file.write("C0000007|T1|A1|Thing|AT1||\n")
    written(meta / "MRCUI.RRF", "C8|2000AA|SY|||C0000001|Y|\nC9|2000AA\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = read("umls", meta)
        assert len(list(records)) == GOOD
    # MRSTY is read twice, and its bad row told once.
    assert len(caught) == 1 and f'{meta}/MRSTY.RRF:301: "T1|Thing" is no semantic type' in str(caught[0].message)
    with pytest.raises(
        PelError, match=r"MRCUI\.RRF:2: the row has 2 columns.* Not right: 1 of 2 records\. More than 1 %"
    ):
        list(records.retired)


def test_a_quote_that_is_not_closed_costs_its_lines(tmp_path):
    rows = [f"D{i},name" for i in range(400)]
    rows[10] = 'D10,"name'
    rows[12] = 'D12,"name"'
    path = written(tmp_path / "kb.csv", "\n".join(["id,name", *rows]))
    found, warned = read_all(read("csv", path))
    assert len(found) == 397 and warned[0].startswith(f"{path}:12: ") and "(up to line 14)" in warned[0]
    assert warned[1:] == [f"{path}: 3 records in all are not right"]
    rows[12] = "D12,name"
    written(path, "\n".join(["id,name", *rows]))
    with pytest.raises(PelError, match=r"kb\.csv:12: unexpected end of data \(up to line 401\).* 390 of 400 records"):
        list(read("csv", path))


def test_a_row_that_is_not_utf8(tmp_path):
    path = tmp_path / "kb.csv"
    rows = [f"D{i},name".encode() for i in range(200)]
    rows[7] = "D7,Fièvre".encode("latin-1")
    path.write_bytes(b"\n".join([b"id,name", *rows]))
    found, warned = read_all(read("csv", path))
    assert len(found) == 199 and warned == [f"{path}:9: the row is not UTF-8; save the file as UTF-8."]


def test_a_record_of_mesh_without_its_end(tmp_path):
    records = [mesh_record(f"D{i}") for i in range(GOOD)]
    records[6] = records[6].replace("</DescriptorRecord>", "")
    path = mesh_written(tmp_path, records)
    found, warned = read_all(read("mesh", path))
    assert len(found) == GOOD - 1 and len(warned) == 1 and "is not XML" in warned[0]
    written(path, f"<DescriptorRecordSet>{''.join(records[:6])}</DescriptorRecordSet>"[:-40])
    with pytest.raises(PelError, match=r"desc\.xml:6: is not XML at column \d+ \(the file breaks off there\)"):
        list(read("mesh", path))


@pytest.mark.parametrize("format", ["csv", "jsonl", "scispacy", "mesh", "obo", "umls", "zeshel", "kilt"])
def test_a_file_that_is_of_no_format(tmp_path, format):
    garbage = random.Random(1).randbytes(300_000)
    prose = b"It was the best of times, it was the worst of times\n" * 5000
    for data in (b"", b"\0" * 100_000, b"\n" * 1000, garbage, prose, b'"' * 50_000, b"<a>" * 50_000, b"[" * 50_000):
        path = tmp_path / "file"
        if format == "umls":
            umls_files(tmp_path, 0)
            path = tmp_path / "META" / "MRCONSO.RRF"
        path.write_bytes(data)
        with warnings.catch_warnings(record=True), pytest.raises(PelError) as error:
            list(records_of(format, path))
        assert str(path) in str(error.value) or str(path.parent) in str(error.value)
        assert "\n" not in str(error.value) and "\0" not in str(error.value) and len(str(error.value)) < 1500
        if format == "umls":
            for file in (tmp_path / "META").iterdir():
                file.unlink()
            (tmp_path / "META").rmdir()


@pytest.mark.parametrize("format", ["csv", "jsonl", "scispacy", "mesh", "obo", "umls", "zeshel", "kilt"])
def test_a_record_without_an_end_is_not_held(tmp_path, format, monkeypatch):
    umls_files(tmp_path, 0)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr("spacy_pel.kb.readers.xml_records.LONGEST_LINE", 1 << 20)
    starts = {"csv": "id,name\nD1,", "jsonl": '{"id": "', "mesh": "<DescriptorRecord>", "obo": "[Term]\nname: "}
    path = tmp_path / ("META/MRCONSO.RRF" if format == "umls" else "file")
    written(path, starts.get(format, "") + "x" * (3 << 20))
    with pytest.raises(PelError, match=r"\d: (the line has over|no record ends within) 1 MB"):
        list(records_of(format, path))


def test_the_rest_of_a_file_is_not_read_once_it_is_plain_that_it_is_none(tmp_path):
    path = written(tmp_path / "kb.jsonl", "no JSON\n" * 100_000)
    with pytest.raises(PelError, match=r"kb\.jsonl:1: .* Not right: 1,001 of 1,001 records\."):
        list(read("jsonl", path))


def test_what_a_terminal_would_obey_is_shown(tmp_path):
    rows = [f"D{i},name" for i in range(200)] + ["D1\x1b[2J,name", "D1\x1b[2J,name"]
    path = written(tmp_path / "kb.csv", "\n".join(["id,name", *rows]))
    _, warned = read_all(read("csv", path))
    assert "\x1b" not in warned[0] and r"D1\x1b[2J" in warned[0]


def test_a_long_id_is_cut_in_messages(tmp_path):
    rows = [f"D{i},name" for i in range(200)] + [f"{'D' * 10_000},name"] * 2
    path = written(tmp_path / "kb.csv", "\n".join(["id,name", *rows]))
    _, warned = read_all(read("csv", path))
    assert len(warned[0]) < 700 and warned[0].endswith("give every entity its own id.")
