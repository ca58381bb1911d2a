"""A linker that others change and read at the same time, and one that links for long."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import spacy
from campaign import FACTOR, SEED, print_table
from tiny import SENTENCES, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.kb.knowledge_base import Entity
from spacy_pel.kb.verify import verify

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

HERE = Path(__file__).parents[1]
CHANGES = round(20 * FACTOR)
THREADS, PROCESSES = 8, 4
MENTIONS = round(10_000 * FACTOR)

READER = """
import os, sys
import spacy
from tiny import make_docs

nlp, n = spacy.load(sys.argv[1]), 0
print("ready", flush=True)
while not n or not os.path.exists(sys.argv[2]):
    for doc in nlp.pipe(make_docs(nlp)):
        assert all(ent.kb_id_ for ent in doc.ents), [ent.kb_id_ for ent in doc.ents]
        n += len(doc.ents)
print(n)
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, steps=20)
    linker.index(progress=False)
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


def test_many_read_while_one_writes(pipeline, tmp_path):
    """No reader fails, and what is in the KB at all times is found at all times."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    kept = {ent.kb_id_ for doc in nlp.pipe(make_docs(nlp)) for ent in doc.ents}
    done, errors, read = tmp_path / "done", [], [0] * THREADS
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(pipeline), str(done)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for reader in readers:
        reader.stdout.readline()

    def read_on(number: int) -> None:
        try:
            while not read[number] or not done.exists():
                for doc in nlp.pipe(make_docs(nlp)):
                    assert all(ent.kb_id_ for ent in doc.ents)
                    read[number] += len(doc.ents)
                assert all(id in linker.kb and linker.kb[id].name for id in kept)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read_on, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    writer = spacy.load(pipeline).get_pipe("pel_linker")
    start = time.perf_counter()
    try:
        change(writer)
    finally:
        done.touch()
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    printed = [reader.communicate() for reader in readers]
    by_processes = [int(out) if out.strip().isdigit() else 0 for out, _ in printed]
    print_table(
        ("seconds", "changes", "mentions by 8 threads", "mentions by 4 processes", "errors"),
        [(f"{seconds:.0f}", CHANGES, sum(read), sum(by_processes), len(errors) + by_processes.count(0))],
    )
    assert not errors, errors[0]
    assert all(by_processes), [err[-1500:] for _, err in printed]
    assert min(read) > 0 and verify(writer.kb) == []


def change(linker) -> None:
    """Add, update and remove entities, one a change."""
    draw, there = random.Random(SEED), []
    for number in range(CHANGES):
        kind = draw.choice(["add", "add", "update", "remove"])
        if kind == "add" or not there:
            there.append(f"NEW{number}")
            linker.add_entities([Entity(there[-1], f"new disease {number}")])
        elif kind == "update":
            linker.update_entities([Entity(draw.choice(there), f"renamed disease {number}")])
        else:
            linker.remove_entities([there.pop(draw.randrange(len(there)))])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_long_streams_keep_their_memory(pipeline):
    """Memory and open files, after a tenth of the mentions and at the end."""
    nlp = spacy.load(pipeline)
    texts = (SENTENCES[i % len(SENTENCES)] for i in range(MENTIONS // 2))
    seen, measured = 0, []
    for doc in nlp.pipe((make_docs(nlp, [sentence])[0] for sentence in texts), batch_size=256):
        before, seen = seen, seen + len(doc.ents)
        if before < MENTIONS // 10 <= seen:
            measured.append(used())
    measured.append(used())
    (early, files), (late, files_late) = measured
    print_table(
        ("mentions", "MB after a tenth", "MB at the end", "files after a tenth", "files at the end"),
        [(seen, f"{early:.0f}", f"{late:.0f}", files, files_late)],
    )
    assert late < 1.05 * early and files_late <= files


def used() -> tuple[float, int]:
    """MB of this process in memory, and its open files."""
    gc.collect()
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024, len(list(Path("/proc/self/fd").iterdir()))
