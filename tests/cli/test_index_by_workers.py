"""`spacy pel index` by several workers: the vectors of one process, whoever is killed; and never half an index."""

from __future__ import annotations

import os
import signal

import pytest
from commands import TIME_LIMIT, gone, started, wait_for
from on_disk import contents
from tiny import ENTITIES, make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.linking.encoding import Block, EncodeBlock
from spacy_pel.linking.engines import TRIES
from spacy_pel.models.inputs import ENTITIES_AT_ONCE
from spacy_pel.pipeline.indexing import STREAMS

COUNT = 2 * ENTITIES_AT_ONCE + 100
# The worker that is given the second block says which process it is, and waits or dies
CODE = """
import os, pathlib, signal, time
from spacy_pel.pipeline.indexing import STREAMS

whole = STREAMS["entity"]

def waits(model, entities, *given, **settings):
    flag = pathlib.Path({flag!r})
    if entities[0].id == "E{first}" and ({dies} or not flag.exists()):
        flag.with_suffix(".new").write_text(str(os.getpid()))
        flag.with_suffix(".new").rename(flag)
        if {dies}:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    return whole(model, entities, *given, **settings)

STREAMS["entity"] = waits
"""


@pytest.fixture(autouse=True)
def own_streams(monkeypatch):
    """What `CODE` sets in the process that reads it does not stay."""
    monkeypatch.setitem(STREAMS, "entity", STREAMS["entity"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a KB of three blocks, a pipeline that is not indexed, and `one`, as one process indexes it."""
    path = tmp_path_factory.mktemp("index")
    nlp, *_ = make_pipeline(write_encoder(path / "encoder"), make_kb(path / "own"), save_kb=False, vectors="both")
    nlp.to_disk(path / "trained")
    words = [word for entity in ENTITIES for word in f"{entity.name} {entity.definition}".split()]
    name = [" ".join(words[i * j % len(words)] for j in range(1, 2 + i % 5)) for i in range(COUNT)]
    KnowledgeBase.create(path / "kb", [Entity(f"E{i}", name[i], (f"form {i}",)) for i in range(COUNT)], source="test")
    assert index(path, path / "one").exit_code == 0
    return path


def code_in(folder, dies=False):
    """A file with `CODE`, and the flag that it sets."""
    file, flag = folder / "code.py", folder / "flag"
    file.write_text(CODE.format(flag=str(flag), first=ENTITIES_AT_ONCE, dies=dies))
    return file, flag


def index(made, out, *arguments):
    words = ["index", made / "trained", made / "kb", out, *arguments]
    return CliRunner().invoke(pel_app, [str(word) for word in words])


def start(made, out, *arguments):
    return started("index", made / "trained", made / "kb", out, *arguments)


def indexes(linker):
    """The bytes of all vectors and their owners."""
    return contents(linker / "pel_linker" / "kb" / "indexes")


def test_the_vectors_of_several_workers_are_those_of_one_process(made, tmp_path):
    """Of entities and of names, to the last bit; a worker that is killed costs a block."""
    code, flag = code_in(tmp_path)
    with start(made, tmp_path / "out", "--processes", 2, "--code", code) as process:
        os.kill(int(wait_for(flag)), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 0, said
    assert said.count("a worker has died (SIGKILL, as when memory runs out) with block 2.") == 1
    assert len(indexes(made / "one")) == 4 and indexes(tmp_path / "out") == indexes(made / "one")
    assert CliRunner().invoke(pel_app, ["verify", str(tmp_path / "out")]).exit_code == 0


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_an_interrupted_index_leaves_the_kb_and_the_pipeline_that_was_there(made, tmp_path, signal_sent):
    code, flag = code_in(tmp_path)
    out = tmp_path / "linkers" / "out"
    assert index(made, out, "--vectors", "names").exit_code == 0
    before, kb = contents(out), contents(made / "kb")
    with start(made, out, "--force", "--processes", 2, "--code", code) as process:
        pid = int(wait_for(flag))
        process.send_signal(signal_sent)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) != 0
    assert gone(pid) and "Traceback" not in said
    assert contents(out) == before and contents(made / "kb") == kb
    if signal_sent == signal.SIGINT:
        assert list(out.parent.iterdir()) == [out]
    assert index(made, out, "--force", "--processes", 1).exit_code == 0
    assert indexes(out) == indexes(made / "one") and list(out.parent.iterdir()) == [out]


def test_a_block_that_kills_its_workers_is_an_error_and_nothing_is_written(made, tmp_path):
    code, _ = code_in(tmp_path, dies=True)
    result = index(made, tmp_path / "out", "--processes", 2, "--code", code)
    assert result.exit_code == 1 and f"{TRIES} workers have died at it, the last by SIGKILL" in result.stderr
    assert result.stderr.count("⚠ a worker has died") == TRIES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code.py", "flag"]


def test_a_worker_refuses_another_encoder_and_gives_its_errors_back(made):
    block = Block("entity", 0, [Entity("E", "aspirin")])
    answer = EncodeBlock(str(made / "trained"), None, {"entity": "another"})(block)
    assert isinstance(answer, PelError) and "finds another encoder there" in str(answer)
    answer = EncodeBlock(str(made / "nowhere"), None, {})(block)
    assert isinstance(answer, PelError) and "a worker cannot encode: OSError" in str(answer)


@pytest.mark.parametrize("arguments", [("--processes", 2), ("--engine", "ray")])
def test_workers_have_no_gpu(made, tmp_path, arguments):
    result = index(made, tmp_path / "out", *arguments, "--gpu-id", 0)
    assert result.exit_code == 1 and "leave out --gpu-id" in result.stderr and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_ray_gives_the_vectors_of_one_process_though_an_actor_is_killed(made, tmp_path):
    pytest.importorskip("ray")
    code, flag = code_in(tmp_path)
    with start(made, tmp_path / "out", "--engine", "ray", "--processes", 2, "--code", code) as process:
        os.kill(int(wait_for(flag)), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 0, said
    assert said.count("a worker has died (ActorDiedError") == 1
    assert indexes(tmp_path / "out") == indexes(made / "one")

    flag.unlink()
    kb = contents(made / "kb")
    with start(made, tmp_path / "stopped", "--engine", "ray", "--processes", 2, "--code", code) as process:
        pid = int(wait_for(flag))
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) != 0
    assert gone(pid) and contents(made / "kb") == kb
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code.py", "flag", "out"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_more_workers_than_ray_has_cpus_are_refused(made, tmp_path):
    pytest.importorskip("ray")
    with start(made, tmp_path / "out", "--engine", "ray", "--processes", 10_000) as process:
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 1
    assert "--processes 10000: Ray has " in said and not (tmp_path / "out").exists()
