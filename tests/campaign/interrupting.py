"""A pipeline is interrupted at any moment of linking: what it links and says of its KB afterwards.

Run as a script: `python interrupting.py FOLDER N SEED` prints a line of JSON, how often each outcome came.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import spacy

sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script
from tiny import links, make_docs, make_kb, make_pipeline, train, write_encoder


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 10)
    linker.index(progress=False)
    linker.tune_names(make_docs(nlp))
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


class Interrupt:
    """Interrupts the program after `after(seconds)` of computing, unless `never()` comes before."""

    def __init__(self) -> None:
        self._armed = False
        signal.signal(signal.SIGVTALRM, self._stop)  # for good: a timer that is late must not end the process

    def after(self, seconds: float) -> None:
        self._armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)

    def never(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _stop(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt


def look(nlp: spacy.Language) -> list:
    """Links, and what the KB says, so that every kind of look-up can be interrupted."""
    kb = nlp.get_pipe("pel_linker").kb
    found = [links(doc) for doc in nlp.pipe(make_docs(nlp)[:2])]
    return [found, [kb[id].name for id in kb], kb.type_counts(), [entity.id for entity in kb.named("fits")]]


def main(folder: Path, n: int, seed: int) -> None:
    path, draw, interrupt, outcomes = make(folder), random.Random(seed), Interrupt(), Counter[str]()
    nlp = spacy.load(path)
    expected = look(nlp)
    start = time.process_time()
    look(nlp)
    seconds = time.process_time() - start
    for number in range(n):
        if number % 50 == 0:
            nlp = spacy.load(path)  # what is computed once can be interrupted too
        try:
            try:
                interrupt.after(draw.uniform(1e-5, seconds))
                end = time.process_time() + 10 * seconds + 1  # what comes in a destructor interrupts nothing
                while time.process_time() < end:  # timers are coarse
                    look(nlp)
            finally:
                interrupt.never()
        except KeyboardInterrupt:
            outcomes["interrupted"] += 1
        try:
            outcomes["same links" if look(nlp) == expected else "OTHER LINKS"] += 1
        except Exception as error:
            outcomes[f"BROKEN: {type(error).__name__}: {error}"] += 1
            nlp = spacy.load(path)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
