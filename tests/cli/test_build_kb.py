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
    assert forced.exit_code == 0 and "renamed it aside" in words(forced.stdout)
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


def test_help_has_an_example():
    result = CliRunner().invoke(pel_app, ["build-kb", "--help"])
    assert result.exit_code == 0 and "Example" in result.stdout and "--licence" in result.stdout
