"""A pipeline described, packed, installed elsewhere with pip, and linking as before."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import spacy
import srsly
from tiny import SENTENCES, make_linking, write_package
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.reports.model_card import model_card
from spacy_pel.tuning.decision import Logistic
from spacy_pel.tuning.ranking import RankTuned
from spacy_pel.tuning.tuned import Tuned

LINK = """
import json, sys, spacy
nlp = spacy.load(sys.argv[1])
if len(sys.argv) > 2:
    nlp.get_pipe("pel_linker").set_kb(sys.argv[2])
for line in sys.stdin:
    print(json.dumps([(ent.text, ent.kb_id_, ent._.is_nil) for ent in nlp(line.rstrip()).ents]))
"""


@pytest.fixture
def pipeline(tmp_path):
    nlp = make_linking(tmp_path, steps=30, model={"context": 0})
    nlp.get_pipe("pel_linker").tuned = Tuned(nil_threshold=0.25)
    nlp.to_disk(tmp_path / "linker")
    return tmp_path / "linker"


def card(*arguments):
    return CliRunner().invoke(pel_app, ["card", *map(str, arguments)])


def test_the_card(pipeline, tmp_path):
    metrics = {"corpus": "corpus/dev.spacy", "n_mentions": 1234, "recall_at_1": 0.5, "nil_f1": None, "reliability": []}
    srsly.write_json(tmp_path / "dev.json", metrics)
    before = srsly.read_json(pipeline / "meta.json")
    result = card(pipeline, "--metrics", tmp_path / "dev.json")
    assert result.exit_code == 0, result.output
    notes = srsly.read_json(pipeline / "meta.json").pop("notes")
    for row in (
        "| Source | test |",
        "| Licence | not stated |",
        "| Entities | 12 |",
        "| Index | entity: flat, cosine, 32 dimensions |",
        "| Mention length | 32 |",
        "| Negatives | 4, 50 % hard, shared |",
        "| Weights of names | ngram 1.0000, exact 0.3000, the defaults |",
        "| NIL threshold | 0.2500 |",
        "| `n_mentions` | 1,234 |",
        "| `recall_at_1` | 0.500 |",
        "| `nil_f1` | – |",
    ):
        assert row in notes.splitlines()
    assert notes in result.output and "gold mentions in `corpus/dev.spacy`" in notes
    assert {key: value for key, value in srsly.read_json(pipeline / "meta.json").items() if key != "notes"} == before
    assert spacy.load(pipeline).meta["notes"] == notes
    assert card(pipeline).exit_code == 0 and "Measures" not in srsly.read_json(pipeline / "meta.json")["notes"]


def test_a_note_with_bars_and_lines_stays_in_its_cell(pipeline):
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    linker.kb.meta["source"] = "MeSH | 2024\nopen part"
    assert r"| Source | MeSH \| 2024 open part |" in model_card(nlp, linker).splitlines()


def test_notes_that_are_there_stay_and_a_card_is_replaced(pipeline):
    file = pipeline / "meta.json"
    srsly.write_json(file, srsly.read_json(file) | {"notes": "Made by hand.\n"})
    assert card(pipeline).exit_code == 0
    once = srsly.read_json(file)["notes"]
    assert once.startswith("Made by hand.\n\n") and once.count("### Knowledge base") == 1
    srsly.write_json(file, srsly.read_json(file) | {"notes": once + "\n\nAsk me."})
    assert card(pipeline).exit_code == 0
    assert srsly.read_json(file)["notes"] == once + "\n\nAsk me."


def test_the_package_may_be_named(pipeline, tmp_path, monkeypatch):
    folder = write_package(pipeline, tmp_path / "site", "en_of_test_card")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "en_of_test_card", raising=False)
    result = card("en_of_test_card")
    assert result.exit_code == 0, result.output
    assert "is an installed package" in " ".join(result.output.split())
    assert "| Entities | 12 |" in srsly.read_json(folder / "meta.json")["notes"]


def test_what_decides_on_nil_is_the_ranker_where_there_is_one(pipeline):
    nlp = spacy.load(pipeline)
    ranker, linker = nlp.add_pipe("pel_ranker"), nlp.get_pipe("pel_linker")
    assert "| NIL threshold | 0.2500 |" in model_card(nlp, linker)
    right = Logistic(*(np.zeros(1) for _ in range(6)), 0.0)
    ranker.tuned = RankTuned(right=right, nil_threshold=0.75)
    text = model_card(nlp, linker)
    assert "| NIL threshold | 0.7500 |" in text and "| Probabilities | fitted by tune-ranker |" in text


def test_a_kb_outside_is_said_to_be(pipeline, tmp_path):
    assert "publishes them" in card(pipeline).output
    spacy.load(pipeline, config={"components.pel_linker.save_kb": False}).to_disk(tmp_path / "slim")
    slim = card(tmp_path / "slim").output
    assert "The KB is not part of this pipeline" in slim and "publishes them" not in slim


def test_what_is_no_file_of_measures(pipeline, tmp_path):
    before = (pipeline / "meta.json").read_bytes()
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[1]")
    for name in ("a.json", "b.json", "none.json"):
        result = card(pipeline, "--metrics", tmp_path / name)
        assert result.exit_code == 1 and name in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert (pipeline / "meta.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("with_kb", [True, False], ids=["with its KB", "KB outside"])
def test_an_installed_package_links_the_same(pipeline, tmp_path, with_kb):
    """Without its KB, which is named at load, the package is the same pipeline saved with `save_kb = false`."""
    texts = [text for text, _ in SENTENCES]
    nlp = spacy.load(pipeline)
    expected = [[[ent.text, ent.kb_id_, ent._.is_nil] for ent in nlp(text).ents] for text in texts]
    assert sum(map(len, expected)) == 12
    source = pipeline
    if not with_kb:
        source = tmp_path / "slim"
        spacy.load(pipeline, config={"components.pel_linker.save_kb": False}).to_disk(source)
    assert card(pipeline).exit_code == 0

    def run(*command, **settings):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "out").mkdir()
    package = ("package", source, tmp_path / "out", "--name", "linked", "--version", "1.2.3", "--build", "wheel")
    run(sys.executable, "-m", "spacy", *map(str, package))
    (wheel,) = (tmp_path / "out").rglob("*.whl")
    (pipeline / "pel_linker" / "kb").rename(tmp_path / "moved")  # nothing may be read from where it was
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    kb = () if with_kb else (str(tmp_path / "moved"),)
    script = f"import sys; sys.path.insert(0, {str(site)!r})\n{LINK}"
    printed = run(sys.executable, "-c", script, "en_linked", *kb, input="\n".join(texts), cwd=tmp_path)
    assert [json.loads(line) for line in printed.splitlines()] == expected
    if with_kb:
        assert "Requires-Dist: spacy-pel" in next(site.glob("*.dist-info/METADATA")).read_text()
        assert "| Entities | 12 |" in next(site.glob("en_linked/*/README.md")).read_text()
