"""More processes than one: `n_process=2` under fork and spawn, and a process killed while it saves a pipeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import spacy
import srsly
from tiny import links, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.kb.knowledge_base import KnowledgeBase

HERE = Path(__file__).parents[1]
TIME_LIMIT = 240


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, steps=20)
    linker.index(progress=False)
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_processes_link_as_one(pipeline, method, tmp_path):
    """The parent has used torch's and faiss' threads before: a forked child that waits for those would hang."""
    script = tmp_path / "link.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import sys

            import spacy
            from tiny import make_docs

            if __name__ == "__main__":
                multiprocessing.set_start_method(sys.argv[2])
                nlp = spacy.load(sys.argv[1])
                one = [nlp(doc) for doc in make_docs(nlp) * 3]
                two = list(nlp.pipe(make_docs(nlp) * 3, n_process=2, batch_size=4))
                assert len(two) == 18
                for a, b in zip(one, two):
                    assert [e.kb_id_ for e in a.ents] == [e.kb_id_ for e in b.ents] and len(a.ents) == 2
                    for e, f in zip(a.ents, b.ents):
                        assert [i for i, _ in e._.kb_ents] == [i for i, _ in f._.kb_ents]
                print("same links")
            """
        )
    )
    result = subprocess.run(
        [sys.executable, str(script), str(pipeline), method],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert result.stdout.strip() == "same links", result.stderr


SAVES = """
import spacy, sys
nlp = spacy.load(sys.argv[1])
while True:
    nlp.to_disk(sys.argv[2])
    print("saved", flush=True)
"""


@pytest.mark.parametrize("saves, delay", [(1, 0.02), (2, 0.1), (3, 0.3)])
def test_killed_while_saving_again_leaves_a_whole_kb(pipeline, tmp_path, saves, delay):
    """A child saves over and over into one folder; whenever it is killed, the KB that `cfg` names opens whole."""
    out = tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", SAVES, str(pipeline), str(out)], stdout=subprocess.PIPE)
    assert child.stdout is not None and all(child.stdout.readline() for _ in range(saves))
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    parts = srsly.read_json(out / "pel_linker" / "cfg")["saved"]["parts"]
    kb = KnowledgeBase(out / "pel_linker" / parts["kb"]["name"])
    assert len(kb) == 12 and kb.indexes and kb["D001241"].name == "Aspirin"
    nlp = spacy.load(pipeline)
    nlp.to_disk(out)
    again = spacy.load(out)
    assert [links(again(doc)) for doc in make_docs(again)] == [links(nlp(doc)) for doc in make_docs(nlp)]
