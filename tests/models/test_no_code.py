"""No code that comes with a model is run, and nobody is asked whether it may be."""

from __future__ import annotations

import builtins
import json

import pytest
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models import storage, weights
from spacy_pel.models.encoder_loader import HFEncoder


@pytest.fixture
def model(tmp_path):
    """A saved bi-encoder."""
    _, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    storage.save(linker.model, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """The file that the code would make. Whoever asks is answered with yes."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    asked = []
    monkeypatch.setattr(builtins, "input", lambda question="": asked.append(question) or "y")
    yield tmp_path / "marker"
    assert not asked and not (tmp_path / "marker").exists()


def hide_code(folder, file, marker, **auto_map) -> None:
    """Put code into `folder` and name it in its configuration `file`."""
    named = [name.split(".")[1] for names in auto_map.values() for name in names]
    classes = "\n\n".join(f"class {name}(PretrainedConfig):\n    pass" for name in named)
    text = f"from transformers import PretrainedConfig\n\nopen({str(marker)!r}, 'w').close()\n\n{classes}\n"
    (folder / "evil.py").write_text(text)
    config = json.loads((folder / file).read_text())
    names = {key: value[0] if len(value) == 1 else value for key, value in auto_map.items()}
    (folder / file).write_text(json.dumps(config | {"auto_map": names}))


def rename(folder, file, key, value="evil") -> None:
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(config | {key: value}))


TOKENIZER = {"AutoTokenizer": ["evil.Tokenizer", "evil.FastTokenizer"]}


def test_the_code_of_a_saved_encoder_is_not_run(model, marker):
    hide_code(model / "mention", "config.json", marker, AutoConfig=["evil.Config"], AutoModel=["evil.Model"])
    rename(model / "mention", "config.json", "model_type")
    with pytest.raises(PelError, match=r"no bi-encoder can be read from this folder .*code of its own.* is never run"):
        storage.load(model, "fp32")


def test_the_code_of_a_saved_tokenizer_is_not_run(model, marker):
    hide_code(model / "tokenizer", "tokenizer_config.json", marker, **TOKENIZER)
    rename(model / "tokenizer", "tokenizer_config.json", "tokenizer_class")
    with pytest.raises(PelError, match=r"no bi-encoder can be read from this folder .*code of its own.* is never run"):
        storage.load(model, "fp32")


def test_an_encoder_that_transformers_knows_is_loaded_without_its_code(model, marker):
    hide_code(model / "mention", "config.json", marker, AutoConfig=["evil.Config"], AutoModel=["evil.Model"])
    hide_code(model / "tokenizer", "tokenizer_config.json", marker, **TOKENIZER)
    assert storage.load(model, "fp32")


def test_an_attention_of_its_own_is_not_loaded(model, marker, monkeypatch):
    """As on a GPU, where transformers chooses the attention."""
    monkeypatch.setattr(weights, "attention_for", lambda device: {})
    rename(model / "mention", "config.json", "_attn_implementation_internal", "evil/kernel:attention")
    assert storage.load(model, "fp32")


@pytest.mark.parametrize("part", ["config.json", "tokenizer_config.json"])
def test_the_code_of_a_pretrained_encoder_is_not_run(tmp_path, marker, part):
    encoder = write_encoder(tmp_path / "encoder")
    if part == "config.json":
        hide_code(encoder, part, marker, AutoConfig=["evil.Config"], AutoModel=["evil.Model"])
        rename(encoder, part, "model_type")
    else:
        hide_code(encoder, part, marker, **TOKENIZER)
        rename(encoder, part, "tokenizer_class")
    with pytest.raises(
        PelError,
        match=r"encoder_loader\] spacy_pel.HFEncoder.v1: no encoder can be loaded .*code of its own.* is never run",
    ):
        HFEncoder(str(encoder))()
