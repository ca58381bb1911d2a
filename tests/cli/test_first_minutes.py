"""What a newcomer meets in the first ten minutes: one line that says what to type next, and no traceback."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from thinc.util import has_gpu
from tiny import make_docs, make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.pipeline.indexing import STREAMS


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with kb, kb.jsonl, training/model-last (not indexed), linker (indexed) and corpus.spacy."""
    folder = tmp_path_factory.mktemp("made")
    nlp, linker, *_ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"), save_kb=False)
    (folder / "training").mkdir()
    nlp.to_disk(folder / "training" / "model-last")
    run("index", folder / "training" / "model-last", folder / "kb", folder / "linker")
    write_docs(folder / "corpus.spacy", make_docs(nlp))
    records = [{"id": e.id, "name": e.name, "alias": [], "def": ""} for e in linker.kb.entities()]
    srsly.write_jsonl(folder / "kb.jsonl", records)
    return folder


def run(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(pel_app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("index nosuch kb out", r"nosuch is no pipeline: there is nothing of that name; name a folder"),
        ("index training kb out", r"training is no pipeline: name training/model-last"),
        ("evaluate linker/pel_linker corpus.spacy", r"pel_linker is no pipeline: it is a part of one, so name linker"),
        (
            "evaluate kb corpus.spacy",
            "kb is no pipeline: it is a KB; name a pipeline that has it, such as `spacy pel",
        ),
        ("index training/model-last training/model-last out", "model-last is a pipeline: name a KB folder"),
        ("index training/model-last kb.jsonl out", "kb.jsonl is a file: build a KB from it with"),
        ("index training/model-last nokb out", "the file is missing; build the KB with"),
        ("tune-nil training/model-last corpus.spacy", "has no vectors; run `python -m spacy pel index PIPELINE"),
        ("evaluate linker nocorpus.spacy", "nocorpus.spacy"),
        ("build-kb nosuch.jsonl out", "nosuch.jsonl does not exist; name a file or folder"),
        ("build-kb kb out --format jsonl", "--format: kb is a KB that is built already; leave it out"),
        ("build-kb corpus.spacy out", "the name does not tell what is in it; say it with --format: jsonl, csv"),
        ("candidates kb.jsonl linker --bogus 3", r"✘ --bogus is no option; change the config by --section\.key VALUE"),
        ("evaluate linker corpus.spacy --code no.py", r"^✘ --code no\.py: there is no such file"),
        ("evaluate linker corpus.spacy --code kb.jsonl", r"^✘ --code kb\.jsonl cannot be imported: "),
        ("kb learn-names linker corpus.spacy --force", "--force replaces what is at --output: give --output too"),
        pytest.param(
            *("evaluate linker corpus.spacy --gpu-id 0", "--gpu-id 0: .*see the extra `gpu`"),
            marks=pytest.mark.skipif(has_gpu, reason="for machines without a GPU"),
        ),
    ],
)
def test_one_line_that_says_what_to_do(made, monkeypatch, arguments, message):
    monkeypatch.chdir(made)
    before = sorted(made.rglob("*"))
    code, output = run(*arguments.split())
    assert code == 1 and re.search(message, output), output
    assert sorted(made.rglob("*")) == before


def test_a_kb_that_is_broken_inside_a_pipeline(made, tmp_path):
    pipeline = shutil.copytree(made / "linker", tmp_path / "linker")
    next((pipeline / "pel_linker" / "kb").rglob("vectors-*.npy")).unlink()
    code, output = run("evaluate", pipeline, made / "corpus.spacy")
    assert code == 1 and f"index again with its KB folder: `python -m spacy pel index {pipeline} KB" in output
    assert run("index", pipeline, made / "kb", pipeline, "--force")[0] == 0
    assert run("evaluate", pipeline, made / "corpus.spacy")[0] == 0


@pytest.mark.parametrize(("lost", "message"), [("meta.json", "Could not read meta.json"), ("tokenizer", "l/tokenizer")])
def test_a_pipeline_that_lacks_a_file(made, tmp_path, lost, message):
    (shutil.copytree(made / "linker", tmp_path / "l") / lost).unlink()
    code, output = run("evaluate", tmp_path / "l", made / "corpus.spacy")
    assert code == 1 and f"{tmp_path / 'l'} cannot be loaded: " in output and message in output


def test_code_that_fails_is_named_with_the_line_that_does(made, tmp_path):
    code = tmp_path / "own.py"
    code.write_text("import re\n\nre.compile('(')\n")
    failed, output = run("evaluate", made / "linker", made / "corpus.spacy", "--code", code)
    assert failed == 1 and f"--code {code} cannot be imported (line 3): " in output


@pytest.mark.parametrize("command", ["tune-nil", "tune-lexical"])
def test_a_seed_is_not_negative(made, command):
    code, output = run(command, made / "linker", "--seed", "-1")
    assert code == 2 and "Invalid value for '--seed'" in output


def test_a_pipeline_where_a_component_is_wanted(made):
    with pytest.raises(PelError, match=r"no pel_linker was saved here; name .*linker/pel_linker"):
        spacy.blank("en").add_pipe("pel_linker").from_disk(made / "linker")


def test_a_threshold_of_another_index_is_dropped_and_said(made, tmp_path):
    pipeline = shutil.copytree(made / "linker", tmp_path / "linker")
    srsly.write_json(pipeline / "pel_linker" / "cfg", {"nil_threshold": 0.25})
    code, output = run("index", pipeline, made / "kb", tmp_path / "new")
    assert code == 0 and "Dropped the NIL threshold 0.2500, tuned with another index" in output
    assert "nil_threshold" not in srsly.read_json(tmp_path / "new" / "pel_linker" / "cfg")


def test_the_type_of_an_index_can_be_asked_for(made, tmp_path):
    assert run("index", made / "linker", made / "kb", tmp_path / "new", "--index-type", "SQ8")[0] == 0
    (index,) = KnowledgeBase(tmp_path / "new" / "pel_linker" / "kb").indexes.values()
    assert index.index_type == "SQ8"


@pytest.mark.parametrize(
    ("index_type", "message"),
    [("bogus", "could not parse"), ("PQ7", "vectors of 32 dimensions"), ("HNSW8,PQ4x4", "of distances")],
)
def test_an_index_that_cannot_be_built_is_refused_before_the_kb_is_encoded(
    made, tmp_path, monkeypatch, index_type, message
):
    encoded = []
    monkeypatch.setitem(STREAMS, "entity", lambda *given, **settings: encoded.append(given))
    code, output = run("index", made / "linker", made / "kb", tmp_path / "new", "--index-type", index_type)
    assert code == 1 and f'--index-type "{index_type}" cannot be built' in output and message in output
    assert not encoded and not (tmp_path / "new").exists()


def test_the_format_is_told_by_the_suffix_and_unknown_fields_are_named(made, tmp_path):
    code, output = run("build-kb", made / "kb.jsonl", tmp_path / "kb")
    assert (
        code == 0
        and 'Left out: 12 values of "alias", which is no field; did you mean "aliases"?' in output
        and '"def"' in output
    )
    table = tmp_path / "table.csv"
    table.write_text("id,name,synonyms,alias\nD1,Fever,pyrexia,heat\n")
    code, output = run("build-kb", table, tmp_path / "kb", "--force")
    assert code == 0 and 'Left out: 1 column "synonyms", which is no field' in output
    assert 'column "alias", which is no field; did you mean "aliases"?' in output
    assert KnowledgeBase(tmp_path / "kb")["D1"].aliases == ()


def test_evaluating_against_a_kb_of_other_ids_is_a_warning(made, tmp_path):
    (tmp_path / "other.jsonl").write_text(json.dumps({"id": "X", "name": "x"}) + "\n")
    run("build-kb", tmp_path / "other.jsonl", tmp_path / "other")
    run("index", made / "training" / "model-last", tmp_path / "other", tmp_path / "linker")
    code, output = run("evaluate", tmp_path / "linker", made / "corpus.spacy")
    assert code == 0 and "⚠ 12 of 12 distinct gold ids are not in the KB" in output


def test_missing_faiss_is_named_with_what_to_install(made):
    code = "import sys; sys.modules['faiss'] = None; from spacy_pel.cli import pel_app; pel_app(sys.argv[1:])"
    command = [sys.executable, "-c", code, "build-kb", str(made / "kb.jsonl"), str(made / "never")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'faiss is missing: python -m pip install "spacy-pel[cpu]"' in done.stdout + done.stderr


CORPORA = {
    "one document": ("1|t|Fever.\n1\t0\t5\tFever\tD\tD1\n", "has 1 document, and the first of every five is held out"),
    "no ids": ("1|t|Fever.\n1\t0\t5\tFever\tD\t\n\n2|t|Fever.\n2\t0\t5\tFever\tD\t\n", "its mentions have no id"),
    "no mentions": ("1|t|Fever.\n\n2|t|Fever.\n", "it has no mention"),
    "prefixes": (
        "1|t|Fever.\n1\t0\t5\tFever\tD\tMESH:D1\n\n2|t|Fever.\n2\t0\t5\tFever\tD\tMESH:D1\n",
        "--strip-prefix takes a prefix off",
    ),
}


@pytest.mark.parametrize(("text", "message"), CORPORA.values(), ids=CORPORA)
def test_new_project_says_what_a_corpus_lacks(tmp_path, text, message):
    (tmp_path / "corpus.txt").write_text(text)
    (tmp_path / "kb.jsonl").write_text(json.dumps({"id": "D1", "name": "Fever"}) + "\n")
    arguments = "new-project", tmp_path / "mine", "--kb", tmp_path / "kb.jsonl", "--corpus", tmp_path / "corpus.txt"
    code, output = run(*arguments)
    assert code == 1 and message in output and not (tmp_path / "mine").exists()
    if "strip" in message:
        assert run(*arguments, "--strip-prefix", "MESH:")[0] == 0
        assert '--strip-prefix \\"MESH:\\"' in (tmp_path / "mine" / "project.yml").read_text()
