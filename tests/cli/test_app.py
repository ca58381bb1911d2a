"""How every command ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from commands import one_line, pel
from on_disk import write_lines
from tiny import make_kb

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase


@pytest.fixture
def folder(tmp_path):
    make_kb(tmp_path / "kb")
    write_lines(tmp_path / "metrics" / "dev.json", [{"mrr": 0.5}])
    return tmp_path


@pytest.mark.parametrize("words", ["kb info kb", "table metrics --columns mrr"])
def test_output_that_nobody_reads_ends_a_command_without_a_word(folder, words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "spacy", "pel", *words.split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, cwd=folder)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_without_a_stdout_a_command_does_its_work(folder):
    command = [sys.executable, "-m", "spacy", "pel", "table", "metrics", "--columns", "mrr", "--output", "table.md"]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"") and (folder / "table.md").exists()


def test_another_pipe_that_breaks_is_said(folder, monkeypatch):
    def breaks(path):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("spacy_pel.cli.table.read_metrics", breaks)
    assert "Broken pipe" in one_line(pel("table", folder / "metrics"))


@pytest.mark.parametrize("words", ["kb search zh 丅帅", "kb export zh -"])
def test_what_the_encoding_of_stdout_lacks_is_printed_as_its_escape(tmp_path, words):
    KnowledgeBase.create(tmp_path / "zh", [Entity("Z1", "丅帅")])
    command = [sys.executable, "-m", "spacy", "pel", *words.split()]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, b"") and rb"\u4e05\u5e05" in done.stdout
