"""`spacy pel verify`: says what is wrong with a pipeline."""

from __future__ import annotations

import shutil

import pytest
import spacy
import srsly
from tiny import make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.models.encoder import tower_module


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    nlp, linker, *_ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    return folder / "linker"


@pytest.fixture
def pipeline(made, tmp_path):
    return shutil.copytree(made, tmp_path / "linker")


def verify(pipeline) -> tuple[int, str]:
    result = CliRunner().invoke(pel_app, ["verify", str(pipeline)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def test_a_whole_pipeline(pipeline):
    code, output = verify(pipeline)
    assert code == 0 and "its pel_linker and 12 entities, all is well" in output and "earlier version" not in output


def test_a_pipeline_without_hashes_is_told_so(pipeline):
    srsly.write_json(pipeline / "pel_linker" / "cfg", {})
    code, output = verify(pipeline)
    assert code == 0 and "saved by an earlier version, without hashes" in output


def test_a_kb_outside_that_is_gone_is_named(pipeline, tmp_path):
    nlp = spacy.load(pipeline, config={"components.pel_linker.save_kb": False})
    kb = shutil.copytree(pipeline / "pel_linker" / "kb", tmp_path / "kb")
    nlp.get_pipe("pel_linker").set_kb(kb)
    nlp.to_disk(tmp_path / "slim")
    assert verify(tmp_path / "slim")[0] == 0
    kb.rename(tmp_path / "elsewhere")
    code, output = verify(tmp_path / "slim")
    assert code == 1 and f"The KB of pel_linker is not at {kb} any more: give it one" in output
    file = tmp_path / "slim" / "pel_linker" / "kb.json"
    assert f'with linker.set_kb(FOLDER) in Python, or {{"path": "FOLDER"}} in {file}, or with `spacy pel ind' in output
    info = CliRunner().invoke(pel_app, ["kb", "info", str(tmp_path / "slim")])
    said = " ".join(info.output.split())
    assert info.exit_code == 1 and said.endswith(f'set_kb(FOLDER) in Python, or {{"path": "FOLDER"}} in {file}')
    assert f"the KB of pel_linker is not at {kb} any more" in said
    srsly.write_json(file, {"path": str(tmp_path / "elsewhere")})
    assert verify(tmp_path / "slim")[0] == 0


@pytest.mark.parametrize("file", ["model/mention/model.safetensors", "kb/**/vectors-*.npy"])
def test_a_changed_byte(pipeline, file):
    (path,) = (pipeline / "pel_linker").glob(file)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    code, output = verify(pipeline)
    assert code == 1 and path.name in output, output


def test_weights_that_were_broken_before_they_were_saved(pipeline, tmp_path):
    nlp = spacy.load(pipeline)
    tower = nlp.get_pipe("pel_linker").model.get_ref("mention_tower")
    next(tower_module(tower).parameters()).data[:] = float("nan")
    nlp.to_disk(tmp_path / "broken")
    code, output = verify(tmp_path / "broken")
    assert code == 1 and "The mention tower of pel_linker gives vectors that are not finite" in output
