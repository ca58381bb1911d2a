"""`spacy train` on a tiny random BERT: from a config and files to an indexed pipeline, by the command line alone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import DocBin
from spacy.util import load_model_from_config
from thinc.api import Config
from tiny import SENTENCES, make_docs, make_kb, make_pipeline, write_encoder
from warm import run_python

from spacy_pel.errors import PelError

NOT_IN_KB = [
    ("Infliximab was given after radiotherapy .", {"Infliximab": "NIL", "radiotherapy": "NIL"}),
    ("She took part in a questionnaire .", {"questionnaire": "C0034394"}),
]
CONFIG = """
[paths]
train = "{folder}/train.spacy"
kb = "{folder}/kb"
encoder = "{folder}/encoder"

[nlp]
lang = "en"
pipeline = ["pel_linker"]

[components]

[components.pel_linker]
factory = "pel_linker"
layout = "{layout}"
save_kb = false

[components.pel_linker.model]
@architectures = "spacy_pel.BiEncoder.v1"
mention_length = 32
entity_length = 32

[components.pel_linker.negatives]
@misc = "spacy_pel.{negatives}Negatives.v1"
n = 4

[corpora]

[corpora.train]
@readers = "spacy_pel.MentionCorpus.v1"
path = ${{paths.train}}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${{paths.train}}

[training]
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
max_steps = 400
eval_frequency = 100
seed = 3

[training.batcher]
@batchers = "spacy_pel.batch_by_mentions.v1"
size = 6

[training.before_update]
@callbacks = "spacy_pel.refresh_negatives.v1"

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.003

[training.score_weights]
nel_recall_at_1 = 1.0
nel_recall_at_64 = 0.0

[initialize]

[initialize.before_init]
@callbacks = "spacy_pel.keep_freed_memory.v1"

[initialize.components]

[initialize.components.pel_linker]

[initialize.components.pel_linker.encoder_loader]
@misc = "spacy_pel.HFEncoder.v1"
name = ${{paths.encoder}}
dropout = 0.0

[initialize.components.pel_linker.kb_loader]
@misc = "spacy_pel.KBFromDisk.v1"
path = ${{paths.kb}}
"""


def spacy_cli(*args: object) -> subprocess.CompletedProcess:
    return run_python("-m", "spacy", *args)


VECTORS_ALONE = ("--components.pel_linker.lexical", "null")  # as what is being trained is scored


def prepare(folder: Path, layout="shared", negatives="Mixed") -> list[str]:
    """Write config, corpus, KB and encoder; return the arguments of `spacy train`."""
    nlp = spacy.blank("en")
    DocBin(docs=make_docs(nlp)).to_disk(folder / "train.spacy")
    make_kb(folder / "kb")
    write_encoder(folder / "encoder")
    DocBin(docs=make_docs(nlp, [*SENTENCES, *NOT_IN_KB])).to_disk(folder / "dev.spacy")
    text = CONFIG.format(folder=folder.as_posix(), layout=layout, negatives=negatives)
    config = Config().from_str(text, interpolate=False)
    load_model_from_config(config, auto_fill=True).config.to_disk(folder / "train.cfg")
    return ["train", str(folder / "train.cfg"), "--output", str(folder / "training"), "--verbose"]


@pytest.mark.parametrize(("layout", "negatives"), [("shared", "Mixed"), ("per_mention", "Random"), ("shared", "Hard")])
def test_train_index_tune_evaluate(tmp_path, layout, negatives):
    result = spacy_cli(*prepare(tmp_path, layout, negatives))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "LOSS PEL_L" in result.stdout and "NEL_RECALL" in result.stdout
    assert "Encoded 12 entities of the KB" in result.stdout + result.stderr
    result = spacy_cli("pel", "index", tmp_path / "training/model-last", tmp_path / "kb", tmp_path / "linker")
    assert result.returncode == 0, result.stderr
    result = spacy_cli("pel", "tune-nil", tmp_path / "linker", tmp_path / "dev.spacy")
    assert result.returncode == 0, result.stderr
    output = tmp_path / "m.json"
    dev, train = tmp_path / "dev.spacy", tmp_path / "train.spacy"
    result = spacy_cli("pel", "evaluate", tmp_path / "linker", dev, "--train", train, "--output", output)
    assert result.returncode == 0, result.stderr
    measured = json.loads(output.read_text())  # exactly, where srsly rounds
    assert (measured["n_mentions"], measured["n_in_kb"], measured["n_nil"]) == (15, 12, 3)
    assert measured["recall_at_1"] == measured["seen_recall_at_1"] > 0.8 and measured["recall_at_64"] == 1.0
    assert measured["nil_f1"] > 2 * 0.2 / 1.2 - 1e-6 and measured["nil_base_rate"] == 0.2  # not below calling all NIL
    nlp = spacy.load(tmp_path / "linker")
    linker = nlp.get_pipe("pel_linker")
    assert linker.threshold == measured["nil_threshold"]
    assert linker.kb.path == tmp_path / "linker" / "pel_linker" / "kb" and linker.kb.indexes
    assert nlp.config["components"]["pel_linker"]["save_kb"] is True


def test_the_dev_score_is_that_of_evaluate(tmp_path):
    """The last score that `spacy train` shows is what `evaluate` measures afterwards. Step 81 is the second of its
    epoch, so the vectors of the epoch's refresh are two updates old and the KB is encoded again."""
    result = spacy_cli(
        *prepare(tmp_path), "--training.max_steps", "81", "--training.eval_frequency", "27", *VECTORS_ALONE
    )
    assert result.returncode == 0, result.stderr
    *_, shown = re.findall(r"^ +\d+ +81 +\S+ +(\S+)", result.stdout, flags=re.MULTILINE)
    result = spacy_cli("pel", "index", tmp_path / "training/model-last", tmp_path / "kb", tmp_path / "linker")
    assert result.returncode == 0, result.stderr
    output = tmp_path / "m.json"
    result = spacy_cli("pel", "evaluate", tmp_path / "linker", tmp_path / "train.spacy", "--output", output)
    assert result.returncode == 0, result.stderr
    assert 100 * srsly.read_json(output)["recall_at_1"] == pytest.approx(float(shown), abs=0.01)


def test_index_gives_a_pipeline_with_a_foreign_kb_its_own(tmp_path):
    """A KB of another encoder is refused on loading; the command that the error names can be run all the same."""
    _, linker, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    nlp, _, _, _ = make_pipeline(write_encoder(tmp_path / "other", intermediate_size=48), make_kb(tmp_path / "kb2"))
    nlp.to_disk(tmp_path / "pipeline")
    linker.kb.copy_to(tmp_path / "pipeline" / "pel_linker" / "kb")
    with pytest.raises(PelError, match="was indexed with another encoder"):
        spacy.load(tmp_path / "pipeline")
    result = spacy_cli("pel", "evaluate", tmp_path / "pipeline", tmp_path / "none.spacy")
    assert result.returncode == 1 and "was indexed with another encoder" in result.stderr
    assert spacy_cli("pel", "index", tmp_path / "pipeline", tmp_path / "kb2", tmp_path / "out").returncode == 0
    assert spacy.load(tmp_path / "out").get_pipe("pel_linker").kb.indexes


def test_a_config_that_does_not_hold_is_one_line(tmp_path):
    nlp, _, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    nlp.to_disk(tmp_path / "pipeline")
    config = tmp_path / "pipeline" / "config.cfg"
    config.write_text(config.read_text().replace('"spacy_pel.FGSM.v1"', '"spacy_pel.FGMS.v1"'), encoding="utf-8")
    result = spacy_cli("pel", "index", tmp_path / "pipeline", tmp_path / "kb", tmp_path / "out")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "cannot be loaded" in result.stderr and "spacy_pel.FGMS.v1" in result.stderr


def test_a_config_without_a_kb_names_the_block(tmp_path):
    args = prepare(tmp_path)
    config = tmp_path / "train.cfg"
    text = config.read_text(encoding="utf-8")
    head, tail = text.split("[initialize.components.pel_linker.kb_loader]")
    config.write_text(head + tail[tail.index("\n[") :] if "\n[" in tail else head, encoding="utf-8")
    result = spacy_cli(*args)
    assert result.returncode != 0
    assert "[initialize.components.pel_linker] has no kb_loader" in result.stdout + result.stderr


def test_index_refuses_to_replace_what_it_should_not(tmp_path):
    (tmp_path / "linker").mkdir()
    (tmp_path / "linker" / "notes.txt").write_text("mine")
    make_kb(tmp_path / "kb")
    result = spacy_cli("pel", "index", tmp_path / "none", tmp_path / "kb", tmp_path / "linker", "--force")
    assert result.returncode == 1 and "is there already and is no pipeline" in result.stderr
    assert (tmp_path / "linker" / "notes.txt").read_text() == "mine"


def test_every_step_is_logged_and_training_goes_on_from_a_checkpoint(tmp_path):
    """The second run begins with the weights of the first: its first loss is about the last one there."""
    arguments = [
        *prepare(tmp_path, negatives="Random"),
        "--training.max_steps",
        "60",
        "--training.eval_frequency",
        "60",
    ]
    config = Config().from_disk(tmp_path / "train.cfg", interpolate=False)
    steps = tmp_path / "training" / "steps.jsonl"
    config["training"]["logger"] = {"@loggers": "spacy_pel.StepLogger.v1", "path": str(steps), "progress_bar": False}
    rate = {"@schedules": "spacy_pel.warmup_linear.v1", "initial_rate": 0.003, "total_steps": 60}
    config["training"]["optimizer"] = {"@optimizers": "spacy_pel.AdamW.v1", "learn_rate": rate}
    config["training"]["accumulate_gradient"] = 2
    config["components"]["pel_linker"]["scorer"] = {"@scorers": "spacy_pel.link_scorer.v1", "kb_sample": 2}
    config.to_disk(tmp_path / "train.cfg")
    result = spacy_cli(*arguments)
    assert result.returncode == 0, result.stderr
    assert "LOSS PEL_L" in result.stdout
    first = list(srsly.read_jsonl(steps))
    assert [line["step"] for line in first] == list(range(61))
    assert all(line["gradient_norm"] > 0 and line["pipe"] == "pel_linker" for line in first)
    assert first[-1]["loss"] < 0.5 * first[0]["loss"] and first[-1]["seconds"] > first[0]["seconds"]

    config["components"] = {"pel_linker": {"source": str(tmp_path / "training" / "model-last")}}
    config["initialize"]["components"] = {}
    config["training"]["logger"]["path"] = str(tmp_path / "more.jsonl")
    config.to_disk(tmp_path / "more.cfg")
    result = spacy_cli("train", tmp_path / "more.cfg", "--output", tmp_path / "more", "--training.max_steps", "5")
    assert result.returncode == 0, result.stdout + result.stderr
    more = next(srsly.read_jsonl(tmp_path / "more.jsonl"))
    assert more["loss"] < 0.5 * first[0]["loss"]
    assert spacy.load(tmp_path / "more" / "model-last").get_pipe("pel_linker").kb.path == tmp_path / "kb"
