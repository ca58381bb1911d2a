"""Annotations in JSON lines, as `link` writes them, are a corpus to every command that takes gold mentions."""

import gzip
import json
import re

import pytest
from tiny import make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app

TEXTS = [
    ("She took aspirin after the heart attack.", {"aspirin": "D001241", "heart attack": "D009203"}),
    ("Phenobarbital for convulsions, and a tonic.", {"Phenobarbital": "D010634", "tonic": "NIL"}),
    ("Aspirin, for a tonic.", {"Aspirin": "D001241", "tonic": "NIL"}),
]


def pel(*arguments):
    return CliRunner().invoke(pel_app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pipeline, its KB, a corpus in JSON lines, plain and packed, and the same as `convert` writes it."""
    folder = tmp_path_factory.mktemp("folder")
    nlp, linker, _, _ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    lines = b""
    for text, links in TEXTS:
        ents = [{"start": text.index(one), "end": text.index(one) + len(one), "kb_id": id} for one, id in links.items()]
        lines += json.dumps({"text": text, "ents": ents}).encode() + b"\n"
    (folder / "dev.jsonl").write_bytes(lines)
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "broken.jsonl").write_bytes(lines + b'{"text": "Aspirin", "ents": [{"start": 0, "end": 99}]}\n')
    assert pel("convert", folder / "dev.jsonl", folder / "dev.spacy").exit_code == 0
    return folder


def measured(folder, corpus):
    out = folder / f"{corpus}.json"
    result = pel("evaluate", folder / "linker", folder / corpus, "--train", folder / corpus, "--output", out)
    assert result.exit_code == 0, result.output
    return {key: value for key, value in json.loads(out.read_text()).items() if key not in ("corpus", SPEED)}


def tuned(command, folder, corpus):
    result = pel(command, folder / "linker", folder / corpus)
    assert result.exit_code == 0, result.output
    return json.loads((folder / "linker" / "pel_linker" / "cfg").read_text())


def baselines(folder, corpus):
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed")
    out = folder / corpus.replace(".", "-")
    assert pel("baselines", folder / "kb", folder / corpus, out, "--train", folder / corpus).exit_code == 0
    found = {path.name: json.loads(path.read_text()) for path in out.iterdir()}
    return {name: {key: one[key] for key in one if key not in ("corpus", SPEED)} for name, one in found.items()}


SPEED = "mentions_per_second"


def test_evaluate_and_baselines_measure_the_same(folder):
    for measures in (measured, baselines):
        converted = measures(folder, "dev.spacy")
        assert measures(folder, "dev.jsonl") == measures(folder, "packed.jsonl.gz") == converted
    assert (converted["baseline-exact-alias.json"]["n_mentions"], measured(folder, "dev.jsonl")["n_nil"]) == (6, 2)


def test_tuning_fits_the_same(folder):
    for command in ("tune-lexical", "tune-nil"):
        assert tuned(command, folder, "dev.jsonl") == tuned(command, folder, "dev.spacy")


@pytest.mark.parametrize("command", ["evaluate", "tune-lexical", "tune-nil", "baselines", "convert"])
def test_a_line_that_is_wrong_is_one_line_in_each(folder, tmp_path, command):
    broken = folder / "broken.jsonl"
    arguments = {"convert": (broken, tmp_path / "no.spacy"), "baselines": (folder / "kb", broken, tmp_path / "no")}
    result = pel(command, *arguments.get(command, (folder / "linker", broken)))
    assert result.exit_code == 1 and not list(tmp_path.iterdir())
    (line,) = [line for line in result.stderr.splitlines() if "✘" in line]
    assert re.search(r'broken\.jsonl:4: "ents"\[0\]: start 0 and end 99 are no span of the text', line)


def test_texts_to_tune_on_are_read_as_those_to_learn_from(folder):
    """Of `new-linker --texts`: lines, or `.spacy`."""
    (folder / "notes.txt").write_text("She took aspirin after the heart attack.\n\xff", "latin-1")
    result = pel("tune-nil", folder / "linker", "--texts", folder / "notes.txt")
    assert result.exit_code == 1 and "notes.txt:2: byte 1 of the line is not UTF-8" in result.stderr
    (folder / "notes.txt").write_text("She took aspirin after the heart attack.\n")
    result = pel("tune-lexical", folder / "linker", "--texts", folder / "notes.txt")
    assert result.exit_code == 0, result.output
