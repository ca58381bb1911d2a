"""What a training process keeps of freed memory, seen by the pages that the kernel has to give it again."""

from __future__ import annotations

import logging
import platform
import subprocess
import sys

import pytest
import spacy
from spacy.util import registry
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.training.memory import KeepFreedMemory, keep_freed_memory

AGAIN = """
import resource
from spacy_pel.training.memory import keep_freed_memory
kept = {keep} and keep_freed_memory()
for step in range(4):
    block = bytearray(64 * 2**20)
    del block
    before, faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, 0
    block = bytearray(b"x") * (64 * 2**20)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    del block
print(kept, faults)
"""


def faults_of_the_last_step(keep: bool) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", AGAIN.format(keep=keep)], capture_output=True, text=True, check=True)
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another C library")
def test_freed_memory_serves_the_next_step():
    kept, faults = faults_of_the_last_step(keep=True)
    assert kept or platform.libc_ver()[0] != "glibc"
    assert not kept or faults < faults_of_the_last_step(keep=False)[1] / 10


def test_another_system_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert not keep_freed_memory()


def test_a_c_library_without_the_setting_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()


@pytest.mark.parametrize(("kept", "said"), [(True, "malloc keeps freed memory"), (False, "malloc is left as it is")])
def test_the_callback_says_what_it_did(monkeypatch, caplog, kept, said):
    monkeypatch.setattr("spacy_pel.training.memory.keep_freed_memory", lambda: kept)
    nlp = spacy.blank("en")
    with caplog.at_level("INFO", logger="spacy"):
        monkeypatch.setattr(logging.getLogger("spacy"), "propagate", True)
        assert KeepFreedMemory()(nlp) is nlp
    assert said in caplog.text


def test_training_without_the_callback_leaves_malloc_alone(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("spacy_pel.training.memory.keep_freed_memory", lambda: asked.append(True))
    nlp, _, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    nlp.update(examples, sgd=optimizer)
    assert not asked
    nlp.config["initialize"]["before_init"] = {"@callbacks": "spacy_pel.keep_freed_memory.v1"}
    before_init = registry.resolve(nlp.config.interpolate()["initialize"])["before_init"]
    assert before_init(nlp) is nlp and asked == [True]
