"""`spacy pel new-project` writes a project that fits the files it was given."""

import json
import re
import shlex

import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.util import load_config, load_model_from_config, registry
from tiny import write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase


def pubtator(n, id="D1", nil_every=2):
    return "".join(
        f"{i}|t|Fever\n{i}|a|after rest.\n{i}\t0\t5\tFever\tDisease\t{'-1' if i % nil_every == 0 else id}\n\n"
        for i in range(1, n + 1)
    )


@pytest.fixture
def kb(tmp_path):
    path = tmp_path / "my kb.jsonl"
    path.write_text(json.dumps({"id": "D1", "name": "Fever"}) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "my corpus.txt"
    path.write_text(pubtator(20))
    return path


def new_project(*arguments):
    return CliRunner().invoke(pel_app, ["new-project", *map(str, arguments)])


def commands(folder):
    return {command["name"]: command for command in srsly.read_yaml(folder / "project.yml")["commands"]}


def scripts(folder):
    return {name: command["script"] for name, command in commands(folder).items()}


def test_project_and_config_fit_the_files(tmp_path, kb, corpus):
    folder = tmp_path / "project"
    result = new_project(folder, "--kb", kb, "--corpus", corpus)
    assert result.exit_code == 0, result.output
    assert f"Next: python -m spacy project run all {folder}" in result.output
    project = srsly.read_yaml(folder / "project.yml")
    assert project["vars"]["kb_source"] == str(kb)
    assert scripts(folder)["build-kb"] == ['python -m spacy pel build-kb "${vars.kb_source}" kb --force']
    assert (project["vars"]["corpus"], project["vars"]["corpus_format"]) == (str(corpus), "pubtator")
    assert "--held-out corpus/dev.spacy" in scripts(folder)["convert"][0]
    assert project["workflows"]["all"][-6:-3] == ["tune-lexical", "tune-nil", "evaluate"]
    assert project["workflows"]["all"][-3:] == ["untrained", "names", "table"]  # has training helped?
    assert sum("tune-lexical" in line for line in scripts(folder)["untrained"]) == 1
    assert commands(folder)["convert"]["deps"] == [str(corpus)]
    assert commands(folder)["index"]["outputs"] == ["linker/tokenizer"]  # which no tune-* and no kb add changes
    config = load_config(folder / "configs" / "train.cfg", interpolate=False)
    nlp = load_model_from_config(config, auto_fill=True)
    assert nlp.pipe_names == ["pel_linker"]
    # 8 of the 16 documents to learn from are linked: one batch an epoch
    assert nlp.config["training"]["max_epochs"] == 20
    training = nlp.config.interpolate()["training"]
    assert training["max_steps"] == training["optimizer"]["learn_rate"]["total_steps"] == 20
    assert training["logger"] == {**training["logger"], "@loggers": "spacy.ConsoleLogger.v3", "progress_bar": "train"}
    assert nlp.config["paths"]["encoder"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert nlp.config["components"]["pel_linker"]["model"]["entity_template"] == "general"  # the KB has no types
    assert samples(nlp.config) == (0, 0)


def samples(config):
    """Of how many entities a training takes negatives, and measures."""
    scorer = config["components"]["pel_linker"]["scorer"]
    return config["training"]["before_update"]["sample"], scorer["kb_sample"]


def test_of_a_large_kb_a_training_encodes_a_part(tmp_path, kb, corpus, monkeypatch):
    monkeypatch.setattr("spacy_pel.cli.new_project.LARGE_KB", 0)
    folder = tmp_path / "project"
    assert new_project(folder, "--kb", kb, "--corpus", corpus).exit_code == 0
    assert samples(load_config(folder / "configs" / "train.cfg")) == (20_000, 20_000)


def test_epochs_are_of_the_mentions_that_the_kb_has(tmp_path, monkeypatch, kb):
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "project"
    ids = [f"D{i % 4}" for i in range(200)]
    corpus.write_text("".join(f"{i}|t|Fever\n{i}|a|rest.\n{i}\t0\t5\tFever\tX\t{id_}\n\n" for i, id_ in enumerate(ids)))
    assert new_project(folder, "--kb", kb, "--corpus", corpus).exit_code == 0
    monkeypatch.chdir(folder)
    run_lines(folder, *scripts(folder)["convert"], *scripts(folder)["build-kb"])
    config = load_config(folder / "configs" / "train.cfg").interpolate()
    reader = registry.resolve({"train": config["corpora"]["train"]})["train"]
    batcher = registry.resolve({"batcher": config["training"]["batcher"]})["batcher"]
    batches = list(batcher(reader(spacy.blank("en"))))
    assert len(batches) == config["training"]["eval_frequency"] == 2  # 40 of 160 mentions
    assert config["training"]["max_steps"] == 2 * config["training"]["max_epochs"]
    assert "# 40 mentions with an id of the KB: 2 batches" in (folder / "configs" / "train.cfg").read_text()


def test_dev_corpus_formats_and_an_encoder_folder(tmp_path, corpus):
    nlp = spacy.blank("en")
    kb, docs, dev = tmp_path / "kb.tsv", tmp_path / "train.spacy", tmp_path / "dev.spacy"
    kb.write_text("id\tname\ttypes\nD1\tFever\tSign\n")
    write_docs(docs, PubTatorReader(corpus, nlp))
    all_known = tmp_path / "dev.txt"
    all_known.write_text(pubtator(3, nil_every=10))
    write_docs(dev, PubTatorReader(all_known, nlp))
    folder = tmp_path / "project"
    result = new_project(folder, "--kb", kb, "--corpus", docs, "--dev", dev, "--encoder", tmp_path)
    assert result.exit_code == 0, result.output
    project = srsly.read_yaml(folder / "project.yml")
    assert project["vars"]["corpus_format"] == "spacy"
    assert scripts(folder)["convert"][1].endswith(f'"{dev}" corpus/dev.spacy --format spacy')
    assert commands(folder)["convert"]["deps"] == [str(docs), str(dev)]
    assert project["workflows"]["all"][-5:-3] == ["tune-lexical", "evaluate"]  # nothing in dev is NIL
    config = load_config(folder / "configs" / "train.cfg")
    assert config["paths"]["encoder"] == str(tmp_path)
    assert config["components"]["pel_linker"]["model"]["entity_template"] == "biomedical"


def test_what_does_not_fit_is_one_line_and_leaves_nothing(tmp_path, kb, corpus):
    other = tmp_path / "other.txt"
    other.write_text(pubtator(5, id="C0015967"))
    nothing = tmp_path / "nothing.xml"
    nothing.write_text("<kb/>")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    columns = tmp_path / "columns.csv"
    columns.write_text("code,name\nD1,Fever\n")
    docs = tmp_path / "docs.spacy"
    write_docs(docs, PubTatorReader(corpus, spacy.blank("en")))
    unannotated, fifth = tmp_path / "dev.jsonl", tmp_path / "fifth.txt"
    unannotated.write_text('{"text": "Fever after rest.", "ents": [{"start": 0, "end": 5}]}\n')
    fifth.write_text(pubtator(10).replace("1\t0\t5\tFever\tDisease\tD1", "").replace("6\t0\t5\tFever\tDisease\t-1", ""))
    folder = tmp_path / "project"
    for arguments, message in [
        (("--kb", kb, "--corpus", corpus, "--dev", unannotated), r"dev.jsonl: no mention has an id, .*leave --dev out"),
        (("--kb", kb, "--corpus", fifth), r"fifth.txt: the first of every five documents .*or name --dev FILE"),
        (("--kb", kb, "--strip-prefix", "X:"), r"--strip-prefix X:: is for the ids of a corpus; give --corpus too"),
        (("--kb", kb, "--corpus", other), r"no mention of .*other.txt has an id of .*C0015967.*D1.*use the same ids"),
        (("--kb", tmp_path / "no.jsonl", "--corpus", corpus), r"no.jsonl does not exist"),
        (("--kb", nothing, "--corpus", corpus), r"nothing.xml: the name does not tell .* say it with --format"),
        (("--kb", nothing), r"nothing.xml: the name does not tell .* say it with --format"),
        (("--kb", empty, "--corpus", corpus), r"empty.jsonl: holds no entities"),
        (("--kb", tmp_path / "nowhere", "--corpus", corpus), r"nowhere does not exist"),
        (("--kb", tmp_path / "nowhere"), r"nowhere does not exist"),
        (("--kb", columns), r"columns.csv:1: no column \"id\" among \['code', 'name'\]"),
        (("--kb", columns, "--columns", "id=code", "--corpus", tmp_path / "no.jsonl"), r"no.jsonl does not exist"),
        (("--kb", kb, "--columns", "id=x", "--corpus", corpus), r"--columns: is for csv, not for jsonl"),
        (("--kb", kb, "--columns", "id=x"), r"--columns: is for csv, not for jsonl"),
        (("--kb", kb, "--corpus", tmp_path / "no.txt"), r"no.txt does not exist"),
        (("--kb", kb, "--corpus", kb), r'my kb\.jsonl:1: "text" is missing'),
        (("--kb", kb, "--corpus", docs, "--strip-prefix", "X:"), r"--strip-prefix is for .*docs.spacy keeps its ids"),
    ]:
        result = new_project(folder, *arguments)
        assert result.exit_code == 1
        (line,) = result.stderr.strip().splitlines()[-1:]
        assert re.search(message, line), line
        assert not folder.exists()


def test_mentions_that_are_left_out_are_told(tmp_path, kb):
    corpus = tmp_path / "bytes.txt"
    corpus.write_text(pubtator(10).replace("|t|Fever", "|t|Fièvre"))  # "Fever" is not at its offsets
    result = new_project(tmp_path / "project", "--kb", kb, "--corpus", corpus)
    assert re.search(r"10\s+mentions\s+do\s+not\s+match\s+the\s+text", result.output), result.output


def test_a_folder_that_is_there_is_kept_unless_forced(tmp_path, kb, corpus):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert "is there already" in new_project(folder, "--kb", kb, "--corpus", corpus).stderr
    assert new_project(folder, "--kb", kb, "--corpus", corpus, "--force").exit_code == 0
    assert (folder / "notes.txt").read_text() == "mine"


def test_without_a_corpus_it_makes_a_linker_of_the_kb(tmp_path, kb, corpus):
    folder, encoder = tmp_path / "project", tmp_path / "encoder"
    encoder.mkdir()
    result = new_project(folder, "--kb", kb, "--encoder", encoder, "--template", "general")
    assert result.exit_code == 0, result.output
    assert f"Next: python -m spacy project run all {folder}" in result.output
    project = srsly.read_yaml(folder / "project.yml")
    assert project["vars"]["vocabulary"] == str(kb) and project["workflows"]["all"] == ["new-linker"]
    (line,) = scripts(folder)["new-linker"]
    assert line.startswith('python -m spacy pel new-linker "${vars.vocabulary}" linker --find') and str(encoder) in line
    assert "--template general" in line
    assert "learnt --learn" in scripts(folder)["learn"][0]
    assert sorted(path.name for path in folder.iterdir()) == ["project.yml"]
    for arguments, message in [
        (("--kb", tmp_path / "no.csv"), "no.csv does not exist"),
        (("--kb", kb, "--dev", corpus), "give --corpus too"),
        (("--kb", kb, "--encoder", "./no"), "there is no such folder"),
    ]:
        result = new_project(tmp_path / "other", *arguments)
        assert result.exit_code == 1 and message in " ".join(result.stderr.split())
        assert not (tmp_path / "other").exists()


def write_csv(folder):
    path = folder / "a (small) kb.csv"
    path.write_text("it's number,term,tipes\nD1,Fever,Sign\n")
    return path, ("--columns", "id=it's number,name=term")


def write_obo(folder):
    path = folder / "kb.obo"
    path.write_text("format-version: 1.2\n\n[Term]\nid: D1\nname: Fever\n")
    return path, ()


def write_umls(folder):
    meta = folder / "META"
    meta.mkdir()
    (meta / "MRCONSO.RRF").write_text("D1|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|D005334|Fever|0|N||\n")
    (meta / "MRSTY.RRF").write_text("D1|T184|A2.2.2|Sign or Symptom|AT1||\n")
    (meta / "MRCUI.RRF").write_text("D9|2000AA|SY|||D1|Y|\n")
    return meta, ("--format", "umls", "--sources", "MSH", "--types", "T184")


def write_built(folder):
    KnowledgeBase.create(folder / "built", [Entity("D1", "Fever")], licence="CC0", retired=[("D9", "D1")])
    return folder / "built", ()


def run_lines(folder, *lines):
    project = srsly.read_yaml(folder / "project.yml")
    for line in lines:
        for key, value in project["vars"].items():
            line = line.replace("${vars." + key + "}", str(value))
        result = CliRunner().invoke(app, shlex.split(line)[3:])
        assert result.exit_code == 0, (line, result.output, result.exception)


@pytest.mark.parametrize("write", [write_csv, write_obo, write_umls, write_built])
def test_whatever_build_kb_reads_is_a_kb(tmp_path, monkeypatch, corpus, write):
    source, options = write(tmp_path)
    folder = tmp_path / "project"
    result = new_project(folder, "--kb", source, "--corpus", corpus, *options)
    assert result.exit_code == 0, result.output
    assert "1 entities; of 16 mentions to learn from, 8 have an id of the KB" in result.output
    printed = " ".join(result.output.split())
    assert ('column "tipes", which is no field; did you mean "types"?' in printed) is (write is write_csv)
    monkeypatch.chdir(folder)
    run_lines(folder, *scripts(folder)["build-kb"])
    kb = KnowledgeBase("kb")
    assert [(entity.id, entity.name) for entity in kb.entities()] == [("D1", "Fever")]
    assert kb.meta["licence"] == ("CC0" if source.name == "built" else "")
    assert kb.successors() == ({"D9": "D1"} if source.is_dir() else {})
    assert commands(folder)["build-kb"]["deps"] == ([] if source.is_dir() else [str(source)])

    other = tmp_path / "names"
    assert new_project(other, "--kb", source, *options).exit_code == 0
    for name in ("new-linker", "learn"):
        (line,) = scripts(other)[name]
        assert set(options) <= set(shlex.split(line))


def test_an_id_that_the_source_has_retired_is_an_id_of_the_kb(tmp_path):
    source, _ = write_built(tmp_path)
    corpus = tmp_path / "old.txt"
    corpus.write_text(pubtator(10, id="D9"))
    result = new_project(tmp_path / "project", "--kb", source, "--corpus", corpus)
    assert result.exit_code == 0 and "1 entities; of 8 mentions to learn from, 4 have" in result.output, result.output


def test_corrected_links_are_a_corpus(tmp_path, monkeypatch, kb):
    """The lines that `link` writes, with the ids corrected."""
    line = {"text": "Fever after rest.", "ents": [{"start": 0, "end": 5, "kb_id": "X:D1", "is_nil": False}]}
    nil = {"text": "No rest.", "ents": [{"start": 3, "end": 7, "kb_id": "NIL", "is_nil": True}]}
    corpus, folder = tmp_path / "linked.jsonl", tmp_path / "project"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in [line, line, nil, line, nil] * 2))
    result = new_project(folder, "--kb", kb, "--corpus", corpus, "--dev", corpus, "--strip-prefix", "X:")
    assert result.exit_code == 0, result.output
    assert srsly.read_yaml(folder / "project.yml")["workflows"]["all"][-6:-3] == [
        "tune-lexical",
        "tune-nil",
        "evaluate",
    ]
    monkeypatch.chdir(folder)
    run_lines(folder, *scripts(folder)["convert"])
    for part in ("train", "dev"):
        docs = list(read_docs(folder / "corpus" / f"{part}.spacy", spacy.blank("en").vocab))
        assert [doc.ents[0].kb_id_ for doc in docs] == ["D1", "D1", "NIL", "D1", "NIL"] * 2


def test_the_untrained_linker_is_measured_as_the_trained_one(tmp_path, monkeypatch, kb, corpus):
    """What the project runs to say whether training helped: with an encoder that knows nothing, names link."""
    folder = tmp_path / "project"
    assert (
        new_project(folder, "--kb", kb, "--corpus", corpus, "--encoder", write_encoder(tmp_path / "e")).exit_code == 0
    )
    monkeypatch.chdir(folder)
    config = (folder / "configs" / "train.cfg").read_text()
    (folder / "configs" / "train.cfg").write_text(config.replace("mention_length = 64", "mention_length = 32"))
    command = scripts(folder)
    run_lines(folder, command["convert"][0], *command["build-kb"], *command["untrained"], *command["names"])
    found = {path.stem: json.loads(path.read_text()) for path in (folder / "metrics").glob("*.json")}
    assert {"baseline-untrained", "baseline-exact-alias", "baseline-tfidf"} <= found.keys()
    assert {measures["recall_at_1"] for measures in found.values()} == {1.0}
