"""Ctrl-C at any moment of linking: the next link is what it would have been."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

import pytest
import spacy
from campaign import FACTOR, SEED, print_table
from tiny import links, make_docs, make_kb, make_pipeline, train, write_encoder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not hasattr(signal, "ITIMER_VIRTUAL"), reason="needs timers of the system"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

INTERRUPTS = round(100 * FACTOR)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupts")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 10)
    linker.index(progress=False)
    linker.tune_names(make_docs(nlp))
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture
def interrupt():
    """Sets the seconds of computing after which the program is interrupted; 0 for never."""
    armed = False

    def stop(*_):
        if armed:  # another thread may be told of a timer that has been switched off since
            raise KeyboardInterrupt

    def interrupt(seconds):
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)

    before = signal.signal(signal.SIGVTALRM, stop)
    yield interrupt
    interrupt(0)
    signal.signal(signal.SIGVTALRM, before)


def look(nlp) -> list:
    """Links, and what the KB says, so that every kind of look-up can be interrupted."""
    linker = nlp.get_pipe("pel_linker")
    found = [links(doc) for doc in nlp.pipe(make_docs(nlp)[:2])]
    kb = linker.kb
    return [found, [kb[id].name for id in kb], kb.type_counts(), [entity.id for entity in kb.named("fits")]]


def test_ctrl_c_while_linking(folder, interrupt):
    rng, nlp = random.Random(SEED), spacy.load(folder)
    expected, outcomes = look(nlp), Counter[str]()
    start = time.process_time()
    look(nlp)
    seconds = time.process_time() - start
    for number in range(INTERRUPTS):
        if number % 50 == 0:
            nlp = spacy.load(folder)  # what is computed once can be interrupted too
        try:
            try:
                interrupt(rng.uniform(1e-5, seconds))
                end = time.process_time() + 10 * seconds + 1  # what comes in a destructor interrupts nothing
                while time.process_time() < end:  # timers are coarse
                    look(nlp)
            finally:
                interrupt(0)
        except KeyboardInterrupt:
            outcomes["interrupted"] += 1
        try:
            outcomes["same links" if look(nlp) == expected else "OTHER LINKS"] += 1
        except Exception as error:
            outcomes[f"BROKEN: {type(error).__name__}: {error}"] += 1
            nlp = spacy.load(folder)
    print_table(("what", "times"), sorted(outcomes.items()))
    assert set(outcomes) == {"interrupted", "same links"}, outcomes
    assert outcomes["interrupted"] > INTERRUPTS / 2, outcomes
