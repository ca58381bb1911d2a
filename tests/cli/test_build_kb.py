"""`spacy pel build-kb` as a user runs it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.kb.knowledge_base import KnowledgeBase

RECORDS = [
    {"id": "D001241", "name": "Aspirin", "aliases": ["ASA"], "types": ["Drug"], "definition": "An analgesic."},
    {"id": "D009203", "name": "Myocardial Infarction", "aliases": ["heart attack", "MI"], "definition": None},
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "entities.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf8")
    return path


def run(*args):
    return CliRunner().invoke(pel_app, ["build-kb", *map(str, args)])


def words(text):
    """`text` without the line breaks that a narrow terminal gets."""
    return " ".join(text.split())


def test_builds_a_kb_and_sums_it_up(source, tmp_path):
    result = run(source, tmp_path / "kb", "--source", "MeSH", "--release", "2025", "--licence", "open")
    assert result.exit_code == 0, result.output
    summary = dict(line.strip().split(maxsplit=1) for line in result.stdout.split("\n\n")[1].splitlines())
    assert {key: summary[key] for key in ("entities", "aliases", "definitions", "types")} == {
        "entities": "2",
        "aliases": "3",
        "definitions": "1",
        "types": "1",
    }
    assert float(summary["seconds"]) < 60
    assert "Entities: 2 entities" in result.stderr  # the progress bar
    kb = KnowledgeBase(tmp_path / "kb")
    assert list(kb) == ["D001241", "D009203"]
    assert (kb.meta["source"], kb.meta["release"], kb.meta["licence"]) == ("MeSH", "2025", "open")


def test_replaces_a_kb_only_with_force(source, tmp_path):
    run(source, tmp_path / "kb")
    refused = run(source, tmp_path / "kb")
    assert refused.exit_code == 1 and "--force" in words(refused.stderr)
    forced = run(source, tmp_path / "kb", "--force")
    assert forced.exit_code == 0 and "Replaced the old KB" in words(forced.stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entities.jsonl", "kb"]


def test_force_does_not_replace_another_folder(source, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("…")
    result = run(source, tmp_path / "thesis", "--force")
    assert result.exit_code == 1 and "chapter1.tex" in result.stderr
    assert (tmp_path / "thesis" / "chapter1.tex").exists()


def test_errors_are_one_line_and_leave_nothing(source, tmp_path):
    source.write_text(source.read_text() + '{"id": "D3"}\n')
    result = run(source, tmp_path / "kb")
    assert result.exit_code == 1
    assert f'{source}:3: "name" is missing or empty; give every entity an "id" and a "name".' in words(result.stderr)
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["entities.jsonl"]
    missing = run(tmp_path / "nowhere.jsonl", tmp_path / "kb")
    assert missing.exit_code == 1 and "nowhere.jsonl" in missing.stderr
    unknown = run(source, tmp_path / "kb", "--format", "xls")
    assert unknown.exit_code == 1 and '"xls" is not known; use jsonl' in words(unknown.stderr)


def test_a_kb_that_is_built_is_a_source(meta, tmp_path):
    run(meta, tmp_path / "kb", "--format", "umls", "--release", "2025AA", "--licence", "UMLS")
    result = run(tmp_path / "kb", tmp_path / "part", "--hold-out-types", "T121", "--release", "mine")
    assert result.exit_code == 0, result.output
    kb = KnowledgeBase(tmp_path / "part")
    assert [(e.id, e.type_names) for e in kb.entities()] == [("C0000001", ("Sign or Symptom",))]
    assert (kb.meta["release"], kb.meta["licence"]) == ("mine", "UMLS")
    assert kb.successors(["C0000009"]) == {"C0000009": "C0000001"}
    refused = run(tmp_path / "kb", tmp_path / "other", "--format", "umls")
    assert refused.exit_code == 1 and "--format" in refused.stderr and "is built already" in words(refused.stderr)


def test_help_has_an_example():
    result = CliRunner().invoke(pel_app, ["build-kb", "--help"])
    assert result.exit_code == 0 and "Example" in result.stdout and "--licence" in result.stdout


META = {
    "MRCONSO": (
        "C0000001|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|D005334|Fever|0|N||\n"
        "C0000001|ENG|S|L1|PF|S1|Y|A1||||NCI|PT|C3038|Pyrexia|0|N||\n"
        "C0000001|ENG|S|L1|PF|S1|Y|A1||||NCI|PT|C3038|Old fever|0|O||\n"
        "C0000002|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|D001241|Aspirin|0|N||\n"
    ),
    "MRSTY": "C0000001|T184|A2.2.2|Sign or Symptom|AT1||\nC0000002|T121|A1.4.1.1.1|Pharmacologic Substance|AT1||\n",
    "MRCUI": "C0000009|2000AA|SY|||C0000001|Y|\n",
}


@pytest.fixture
def meta(tmp_path):
    folder = tmp_path / "META"
    folder.mkdir()
    for table, rows in META.items():
        (folder / f"{table}.RRF").write_text(rows)
    return folder


def test_a_folder_of_a_release_is_known_by_its_files(meta, tmp_path):
    for source in (meta, meta.parent):
        assert run(source, tmp_path / "kb", "--force", "--dry-run").exit_code == 0
    (meta / "MRCONSO.RRF").unlink()
    assert "the name does not tell what is in it" in words(run(meta, tmp_path / "kb").stderr)


def test_a_umls_release(meta, tmp_path):
    result = run(
        meta, tmp_path / "kb", "--format", "umls", "--types", "T184,T121", "--sources", "MSH", "--sources", "NCI"
    )
    assert result.exit_code == 0, result.output
    assert "Left out: 1 names that are suppressed" in words(result.stdout)
    kb = KnowledgeBase(tmp_path / "kb")
    assert [(e.id, e.name, e.types, e.type_names) for e in kb.entities()] == [
        ("C0000001", "Fever", ("T184",), ("Sign or Symptom",)),
        ("C0000002", "Aspirin", ("T121",), ("Pharmacologic Substance",)),
    ]
    assert kb.successors(["C0000009"]) == {"C0000009": "C0000001"}


def test_types_with_all_under_them(meta, tmp_path):
    with (meta / "MRSTY.RRF").open("a") as file:
        file.write("C0000003|T033|A2.2|Finding|AT1||\n")
    result = run(meta, tmp_path / "kb", "--types", "T033", "--subtree")
    assert result.exit_code == 0, result.output
    assert list(KnowledgeBase(tmp_path / "kb")) == ["C0000001"]


@pytest.mark.parametrize("out", [[], ["kb"]])
def test_a_dry_run_counts_and_writes_nothing(meta, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    result = run(meta, *out, "--format", "umls", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    for row in (
        "entities 2",
        "retired at most 1",
        "MSH 2",
        "NCI 1",
        "T184 Sign or Symptom 1",
        "T121 Pharmacologic Substance 1",
    ):
        assert row.split() in lines
    assert [path.name for path in tmp_path.iterdir()] == ["META"]


def test_options_and_arguments_that_do_not_go_together(meta, source, tmp_path):
    foreign = run(source, tmp_path / "kb", "--types", "T047")
    assert foreign.exit_code == 1 and "--types: is for umls or zeshel, not for jsonl" in words(foreign.stderr)
    unknown = run(meta, tmp_path / "kb", "--format", "umls", "--sources", "MESH")
    assert unknown.exit_code == 1 and "--sources MESH: " in words(unknown.stderr)
    nowhere = run(source)
    assert nowhere.exit_code == 1 and "OUT: name the KB folder to write" in words(nowhere.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["META", "entities.jsonl"]


ONTOLOGY = "format-version: 1.2\n" + "".join(f"\n[Term]\nid: X:{i}\nname: bone {i}\n" for i in range(20))


@pytest.fixture
def ontology(tmp_path):
    """An ontology whose lines 85 to 92 are broken."""
    path = tmp_path / "bones.obo"
    path.write_text(ONTOLOGY + "\n[Term]\nid: X:20\n" + "xref: two words\n" * 8 + "name: last\n")
    return path


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_broken_lines_are_named_and_counted(ontology, tmp_path, dry):
    result = run(ontology, tmp_path / "kb", *dry)
    assert result.exit_code == 0, result.output
    printed = words(result.stdout)
    assert "Left out: 8 lines that are not right" in printed and "entities 21" in printed
    named = [line for line in range(80, 100) if f"bones.obo:{line}: is not OBO" in printed]
    assert named == [85, 86, 87, 88, 89] and "8 lines in all are not right" in printed
    assert (tmp_path / "kb").exists() is not bool(dry)


def test_strict_stops_at_the_first_record_that_is_not_right(ontology, tmp_path):
    result = run(ontology, tmp_path / "kb", "--strict")
    assert result.exit_code == 1 and not (tmp_path / "kb").exists()
    assert f'{ontology}:85: is not OBO (expected `xref: ID "text"`); mend the line.' in words(result.stderr)
    assert "⚠" not in result.output


def test_one_bad_record_costs_itself_and_many_are_an_error(tmp_path):
    path = tmp_path / "kb.csv"
    rows = [f"D{i},name {i}" for i in range(150)]
    path.write_text("\n".join(["id,name", *rows, "D150"]))
    result = run(path, tmp_path / "kb")
    assert result.exit_code == 0 and "entities 150" in words(result.stdout)
    assert f"{path}:152: the row has 1 columns" in words(result.stdout)
    assert "Left out: 1 records that are not right" in words(result.stdout)
    path.write_text("\n".join(["id,name", *rows, "D150", "D151"]))
    result = run(path, tmp_path / "other")
    assert result.exit_code == 1 and not (tmp_path / "other").exists()
    assert "Not right: 2 of 152 records. More than 1 % is too much to leave out" in words(result.stderr)
    assert "⚠" not in result.output


def test_warnings_of_a_release_are_printed(meta, tmp_path):
    with (meta / "MRSTY.RRF").open("a") as file:
        file.writelines(f"C{i:07}|T184|A2.2.2|Sign or Symptom|AT1||\n" for i in range(3, 200))
        file.write("C0000300|T1|A1|Thing|AT1||\n")
    result = run(meta, tmp_path / "kb", "--format", "umls")
    assert result.exit_code == 0, result.output
    assert f'{meta}/MRSTY.RRF:200: "T1|Thing" is no semantic type' in words(result.stdout)
