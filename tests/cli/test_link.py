"""`spacy pel link` on a tiny pipeline with an entity_ruler: lines in, linked lines out, whatever is wrong with some."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from functools import partial

import pytest
import spacy
import srsly
from commands import pel
from tiny import SENTENCES, make_linking

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.linking.batches import ZONE, piped

ASPIRIN, LITHIUM = SENTENCES[0][0], SENTENCES[1][0]
TIME_LIMIT = 120
link = partial(pel, "link")


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    """A trained pipeline whose entity_ruler knows every mention of SENTENCES."""
    path = tmp_path_factory.mktemp("link")
    make_linking(path, steps=200).to_disk(path / "linker")
    return path / "linker"


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "texts.jsonl", {"text": ASPIRIN, "pmid": 7}, {"text": LITHIUM})


def write(path, *lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def links(record):
    """Of a line that came out, the mention at every pair of offsets and its id."""
    return [(record["text"][ent["start"] : ent["end"]], ent["kb_id"]) for ent in record["ents"]]


def test_a_line_keeps_what_it_had_and_gets_its_entities(linker, source, tmp_path):
    out = tmp_path / "new" / "linked.jsonl"
    result = link(linker, source, out)
    assert result.exit_code == 0 and result.stdout == "", result.output
    assert "2 texts with 4 mentions, 0 of them NIL" in result.stderr
    first, second = srsly.read_jsonl(out)
    assert first["pmid"] == 7 and first["text"] == ASPIRIN
    assert links(first) == [("aspirin", "D001241"), ("heart attack", "D009203")]
    assert links(second) == [("Lithium", "D008094"), ("cyanosis", "D003490")]
    aspirin = first["ents"][0]
    candidates = aspirin.pop("kb_ents")
    assert aspirin == {
        **{"start": 9, "end": 16, "text": "aspirin", "label": "X"},
        **{"kb_id": "D001241", "is_nil": False},
    }
    assert len(candidates) == 5 and candidates[0][0] == "D001241"
    assert [score for _, score in candidates] == sorted((score for _, score in candidates), reverse=True)


def test_nil_and_probabilities_of_a_tuned_pipeline(linker, source, tmp_path):
    tuned = shutil.copytree(linker, tmp_path / "tuned")
    srsly.write_json(tuned / "pel_linker" / "cfg", {"nil_threshold": 1.5, "calibration": [0.0, 0.0]})
    result = link(tuned, source, tmp_path / "out.jsonl")
    assert "4 mentions, 4 of them NIL" in result.stderr
    for record in srsly.read_jsonl(tmp_path / "out.jsonl"):
        assert [(ent["kb_id"], ent["is_nil"], ent["kb_prob"]) for ent in record["ents"]] == [("NIL", True, 0.5)] * 2


def test_plain_text_through_standard_input_and_output(linker):
    result = link(linker, "-", "-", "--format", "txt", input=f"\ufeff{ASPIRIN}\r\n\r\n{LITHIUM}".encode())
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["text"] for record in records] == [ASPIRIN, LITHIUM]
    assert links(records[1]) == [("Lithium", "D008094"), ("cyanosis", "D003490")]


def test_a_spacy_file_has_the_docs_with_their_candidates(linker, source, tmp_path):
    out = tmp_path / "linked.spacy"
    assert link(linker, source, out).exit_code == 0
    docs = list(read_docs(out, spacy.blank("en").vocab))
    assert [[(ent.text, ent.kb_id_) for ent in doc.ents] for doc in docs] == [list(m.items()) for _, m in SENTENCES[:2]]
    assert docs[0].ents[0]._.kb_ents[0][0] == "D001241" and not docs[0].spans


def test_the_mentions_that_a_line_gives_are_linked_and_no_others(linker, tmp_path):
    """In "aspirin-like" they end within a token; the ruler would find the heart attack too."""
    given = {"text": ASPIRIN, "ents": [{"start": 9, "end": 16, "label": "DRUG", "kb_id": "old"}]}
    inside = {"text": "An xaspirinx .", "ents": [{"start": 4, "end": 11}]}
    source = write(
        tmp_path / "texts.jsonl", given, {"text": ASPIRIN, "ents": []}, inside, {"text": ASPIRIN}, {"text": ""}
    )
    assert link(linker, source, tmp_path / "out.jsonl").exit_code == 0
    records = list(srsly.read_jsonl(tmp_path / "out.jsonl"))
    assert links(records[0]) == [("aspirin", "D001241")] and records[0]["ents"][0]["label"] == "DRUG"
    assert records[1]["ents"] == []
    assert [(ent["start"], ent["end"], ent["label"]) for ent in records[2]["ents"]] == [(3, 12, "MENTION")]
    assert len(links(records[3])) == 2 and records[4] == {"text": "", "ents": []}


def test_what_was_linked_is_linked_again_the_same(linker, source, tmp_path):
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    assert link(linker, source, first).exit_code == link(linker, first, second).exit_code == 0
    assert first.read_bytes() == second.read_bytes()


def test_packed_input_and_only_the_beginning_of_it(linker, tmp_path):
    whole, part = tmp_path / "texts.txt.gz", tmp_path / "part.txt.gz"
    whole.write_bytes(gzip.compress(f"{ASPIRIN}\n{LITHIUM}\n".encode()))
    part.write_bytes(whole.read_bytes()[:-9])
    assert link(linker, whole, tmp_path / "out.jsonl").exit_code == 0
    assert len(list(srsly.read_jsonl(tmp_path / "out.jsonl"))) == 2
    result = link(linker, part, tmp_path / "out.spacy")
    assert result.exit_code == 1 and "is not a whole gzip file" in result.stderr
    assert not (tmp_path / "out.spacy").exists()


def test_a_broken_line_is_named_and_the_rest_is_linked(linker, tmp_path):
    lines = [{"text": f"Patient {i} : {LITHIUM}", "i": i} for i in range(600)]
    lines[299] = '{"text": "Lithium"'
    source = write(tmp_path / "texts.jsonl", *lines)
    result = link(linker, source, tmp_path / "out.jsonl")
    assert result.exit_code == 0
    assert f"{source}:300: the line is not valid JSON" in result.stderr
    assert "Broken lines, left out: 1" in result.stderr
    records = list(srsly.read_jsonl(tmp_path / "out.jsonl"))
    assert [record["i"] for record in records] == [i for i in range(600) if i != 299]
    assert all(len(record["ents"]) == 2 for record in records)


def test_many_broken_lines_are_counted(linker, tmp_path):
    source = write(tmp_path / "texts.jsonl", *["{"] * 50, {"text": ASPIRIN})
    result = link(linker, source, tmp_path / "out.jsonl")
    assert result.exit_code == 0
    assert result.stderr.count("not valid JSON") == 20 and "Broken lines, left out: 50" in result.stderr


@pytest.mark.parametrize(
    ("lines", "error"), [([], "it is empty"), (["", " "], "it is empty"), (["{", "[]"], "all its 2 lines are broken")]
)
def test_nothing_to_link_is_an_error_and_writes_nothing(linker, tmp_path, lines, error):
    source = write(tmp_path / "texts.jsonl", *lines)
    for name in ("out.jsonl", "out.spacy"):
        result = link(linker, source, tmp_path / name)
        assert result.exit_code == 1 and result.stderr.splitlines()[-1].startswith(f"✘ {source}: {error}")
    assert list(tmp_path.iterdir()) == [source]


def test_bad_arguments_are_one_line_each_and_write_nothing(linker, source, tmp_path):
    old = write(tmp_path / "old.jsonl", "old")
    for arguments, error in [
        ((tmp_path / "none.jsonl", tmp_path / "out.jsonl"), "none.jsonl is no file"),
        ((tmp_path, tmp_path / "out"), "may not lie in each other"),
        ((tmp_path, tmp_path / "out.jsonl"), "INPUT is a folder, and so is what is written"),
        ((tmp_path, tmp_path / "out.jsonl", "--format", "txt"), "leave out --format"),
        ((source.rename(tmp_path / "texts.json"), tmp_path / "out.jsonl"), "the name does not tell"),
        ((old, tmp_path), "is a folder"),
        ((old, old, "--force"), "is INPUT too"),
        ((old, write(tmp_path / "there.jsonl", "old")), "--force to replace it"),
        ((old, old / "out.jsonl"), f"{old} cannot"),
        ((old, tmp_path / "out.jsonl.gz"), "gzip"),
    ]:
        result = link(linker, *arguments)
        assert result.exit_code == 1 and error in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.jsonl", "texts.json", "there.jsonl"]
    assert old.read_text() == "old\n"


def test_force_replaces_the_file_but_only_when_there_is_something_to_write(linker, source, tmp_path):
    old, broken = write(tmp_path / "old.jsonl", "old"), write(tmp_path / "broken.jsonl", "{")
    assert link(linker, broken, old, "--force").exit_code == 1 and old.read_text() == "old\n"
    assert link(linker, source, old, "--force").exit_code == 0
    assert len(list(srsly.read_jsonl(old))) == 2


def test_without_any_mention_it_says_why(linker, tmp_path):
    result = link(linker, write(tmp_path / "a.txt", "Nothing here ."), tmp_path / "out.jsonl")
    assert result.exit_code == 0 and "No mention was found" in result.stderr


def test_the_vocabulary_does_not_grow_with_the_input():
    nlp, n = spacy.blank("en"), 5 * ZONE
    before, seen = len(nlp.vocab.strings), 0
    for doc, i in piped(nlp, ((nlp.make_doc(f"word{i} number{i}"), i) for i in range(n)), batch_size=2):
        assert doc.text == f"word{i} number{i}"
        seen += 1
    assert seen == n and len(nlp.vocab.strings) < before + 50


def start(linker, *arguments, **settings) -> subprocess.Popen:
    command = [sys.executable, "-m", "spacy", "pel", "link", str(linker), *map(str, arguments), "--batch-size", "8"]
    return subprocess.Popen(command, **settings)


def test_a_component_that_fails_is_named_and_what_to_do(linker, source, tmp_path):
    code = tmp_path / "code.py"
    code.write_text("from spacy_pel.pipeline.linker import PelLinker\nPelLinker.predict = lambda self, docs: 1 / 0\n")
    command = [sys.executable, "-m", "spacy", "pel", "link", linker, source, tmp_path / "out.jsonl", "--code", code]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "a component of the pipeline fails at a text: ZeroDivisionError" in done.stderr
    assert "Put the file into a folder" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_whole_lines(linker, tmp_path, signal_sent):
    """Standard error is a terminal, so that there is a bar, with the speed and the time left."""
    lines = [{"text": " ".join([ASPIRIN] * 20), "i": i} for i in range(3000)]
    source, out = write(tmp_path / "texts.jsonl", *lines), tmp_path / "out.jsonl"
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, 120, 0, 0))  # a bar has the width that the terminal has
    process = start(linker, source, out, stderr=end)
    os.close(end)
    shown, sent = b"", False
    with suppress(OSError):  # Linux's way to say that the other end is closed
        while data := os.read(terminal, 65536):
            shown += data
            if not sent and out.exists() and out.stat().st_size > 1_000_000:
                process.send_signal(signal_sent)
                sent = True
    os.close(terminal)
    assert process.wait(timeout=TIME_LIMIT) == 128 + signal_sent
    assert out.read_bytes().endswith(b"\n")
    records = list(srsly.read_jsonl(out))
    assert [record["i"] for record in records] == list(range(len(records))) and 0 < len(records) < 3000
    said = shown.decode()
    assert f"Stopped. Linked and written to {out}: {len(records):,} texts" in said and "Traceback" not in said
    assert re.search(r"%.*\[\d\d:\d\d<\d\d:\d\d.*[\d,]+ mentions/s\]", said)


def test_a_reader_that_has_enough_ends_it_quietly(linker, tmp_path):
    source = write(tmp_path / "texts.jsonl", *[{"text": ASPIRIN}] * 2000)
    with start(linker, source, "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["text"] == ASPIRIN
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(timeout=TIME_LIMIT) == 141
    assert said.startswith("⚠ Stopped.") and len(said.splitlines()) == 1


def test_groups_of_spans(linker, tmp_path):
    """A pipeline that links a group has that group as its `ents`, overlapping ones too; or what a line gives."""
    nlp = spacy.load(linker, config={"components.pel_linker.spans_key": "sc"})
    ruler = nlp.add_pipe("span_ruler", first=True, config={"spans_key": "sc"})
    ruler.add_patterns([{"label": "Y", "pattern": form} for form in ("heart attack", "the heart attack")])
    nlp.to_disk(tmp_path / "linker")
    given = [{"start": 9, "end": 16, "label": "Z"}]
    source = write(tmp_path / "texts.jsonl", {"text": ASPIRIN}, {"text": ASPIRIN, "ents": given})
    result = link(tmp_path / "linker", source, tmp_path / "out.jsonl")
    assert result.exit_code == 0 and "2 texts with 3 mentions" in result.stderr, result.output
    found, with_given = srsly.read_jsonl(tmp_path / "out.jsonl")
    assert sorted(ent["text"] for ent in found["ents"]) == ["heart attack", "the heart attack"]
    assert ("heart attack", "D009203") in links(found)
    assert links(with_given) == [("aspirin", "D001241")] and with_given["ents"][0]["label"] == "Z"


def test_components_that_register_when_they_are_imported(linker, source, tmp_path):
    shutil.copytree(linker, tmp_path / "linker")
    code = tmp_path / "code.py"
    code.write_text("import spacy\n@spacy.Language.component('of_test_link')\ndef same(doc):\n    return doc\n")
    config = (tmp_path / "linker" / "config.cfg").read_text()
    config = config.replace('pipeline = ["entity_ruler",', 'pipeline = ["entity_ruler","of_test_link",')
    config += '\n[components.of_test_link]\nfactory = "of_test_link"\n'
    (tmp_path / "linker" / "config.cfg").write_text(config)
    result = link(tmp_path / "linker", source, tmp_path / "out.jsonl")
    assert result.exit_code == 1 and "of_test_link" in result.stderr
    result = link(tmp_path / "linker", source, tmp_path / "out.jsonl", "--code", code)
    assert result.exit_code == 0, result.output
    assert links(next(srsly.read_jsonl(tmp_path / "out.jsonl")))[0] == ("aspirin", "D001241")
