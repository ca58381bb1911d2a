"""The file that steps are logged to."""

from __future__ import annotations

import re

import pytest
import spacy

from spacy_pel.errors import PelError
from spacy_pel.training.step_logger import StepLogger


def opened(path):
    """Begins the log at `path` and ends it."""
    nlp = spacy.blank("en")
    nlp.config["training"] = {"score_weights": {}, "max_steps": 0, "eval_frequency": 10}
    _, finish = StepLogger(path, progress_bar=False)(nlp)
    finish()


@pytest.mark.parametrize("before", ["", '{"pipe": "pel_linker", "step": 0, "seconds": 1}\n{"pipe"'])
def test_an_older_log_is_replaced(tmp_path, before):
    path = tmp_path / "steps.jsonl"
    path.write_text(before)
    opened(path)
    assert path.read_text() == ""
    opened(tmp_path / "new" / "steps.jsonl")


@pytest.mark.parametrize("before", ["[training]\n", '{"text": "Fever"}\n', '{"step": 1}\n', "\n", "[1]"])
def test_another_file_is_not(tmp_path, before):
    path = tmp_path / "train.jsonl"
    path.write_text(before)
    said = f"[training.logger]: path = {path}; this file is no log of steps, and is not replaced; name another."
    with pytest.raises(PelError, match=re.escape(said)):
        opened(path)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("name", "why"),
    [("", ": Is a directory"), ("file/steps.jsonl", "file: File exists"), ("file/x/steps.jsonl", "Not a directory")],
)
def test_a_path_that_cannot_be_written(tmp_path, name, why):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / name
    with pytest.raises(PelError) as caught:
        opened(path)
    message = str(caught.value)
    assert message.startswith(f"[training.logger]: path = {path}; it cannot be written ({tmp_path}")
    assert message.endswith(f"{why}); name another file.")
