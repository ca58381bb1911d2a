"""Every command that writes at once, killed at its calls that change files, and with a disk full from one of them on.

Run as a script with faults.so preloaded: `python writing.py FOLDER FACTOR [SEED]` prints a line of JSON a command. One
process imports all; each try is a fork of it, before which nothing has started a thread. `link` is left out: it writes
line after line.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import re
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import spacy
import srsly

sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script
from forks import DONE, TRACEBACK, forked
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.verify import verify

COUNT, KILL, FULL, OFF = 0, 1, 2, -1
REFUSED = 1
KNOWN = ENTITIES[:-2]  # the corpus has mentions of all
MANY = {"DOC": 1, "KB": 3, "PIPELINE": 3}  # tries, in proportion
faults = ctypes.CDLL(None)


def state_of_kb(path: Path) -> str:
    """What look-ups and searches of a whole KB say of it."""
    kb = KnowledgeBase(path)
    if broken := verify(kb):
        raise AssertionError(f"verify: {broken}")
    found = []
    for fingerprint in kb.indexes:
        index = kb.entity_index(fingerprint)
        scores, rows = index.search(np.eye(index.dim, dtype=np.float32)[:3], len(kb))
        found.append([fingerprint, scores.round(4).tolist(), kb.ids(rows).tolist()])
    return digest([kb.n_rows, [repr(entity) for entity in kb.entities()], sorted(found)])


def state_of_pipeline(path: Path) -> str:
    """The links of a whole pipeline, with the probability and the threshold that decided, and its KB."""
    nlp = spacy.load(path)
    linker = nlp.get_pipe("pel_linker")
    links = []
    for doc in nlp.pipe(make_docs(nlp)):
        for ent in doc.ents:
            links.append([ent.kb_id_, [[id, round(score, 4)] for id, score in ent._.kb_ents]])
    return digest([links, linker.tuned.to_dict(), state_of_kb(linker.kb.path)])


def state_of_file(path: Path) -> str:
    """The bytes of a file, but for what a run writes of its time."""
    return digest(re.sub(rb'"(\w*seconds|mentions_per_second)":[ 0-9.e-]+', b"", path.read_bytes()).hex())


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@dataclass
class Writer:
    """A way to write.

    Attributes:
        name: For the table.
        target: What it changes, in the folder `made`.
        run: Does it, in the present folder, or the arguments of the command.
        state: Tells one whole target from another.
        kind: How much there is to it.
    """

    name: str
    target: str
    run: Callable[[], None] | str
    state: Callable[[Path], str]
    kind: str = "DOC"

    def __call__(self) -> None:
        if isinstance(self.run, str):
            pel_app(self.run.split())
            return
        try:
            self.run()
        except (PelError, OSError) as error:  # what Python raises is what a command prints
            print(error)
            raise SystemExit(REFUSED) from error


@dataclass
class Row:
    """What became of the tries of one writer.

    Attributes:
        calls: That change files, of an undisturbed run.
        outcomes: How often it was as before, as after, refused, mixed or unreadable.
        notes: Of the bad ones, the first few.
    """

    writer: str
    fault: str
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def save_other_over() -> None:
    """What `nlp.to_disk` has pel_linker write; spaCy writes its own files in place, and half of one cannot be read."""
    spacy.load("other").get_pipe("pel_linker").to_disk("linker/pel_linker")


def save_in_place() -> None:
    nlp = spacy.load("linker")
    linker = nlp.get_pipe("pel_linker")
    linker.tune_nil(make_docs(nlp))
    linker.to_disk("linker/pel_linker")


WRITERS = [
    Writer("build-kb", "kb2", "build-kb new.jsonl kb2", state_of_kb, "KB"),
    Writer("build-kb --force", "kb", "build-kb new.jsonl kb --force", state_of_kb, "KB"),
    Writer("index", "out", "index linker kb out", state_of_pipeline, "PIPELINE"),
    Writer("index --force", "other", "index linker kb other --force", state_of_pipeline, "PIPELINE"),
    Writer("to_disk over another", "linker", save_other_over, state_of_pipeline, "PIPELINE"),
    Writer("to_disk in place", "linker", save_in_place, state_of_pipeline, "PIPELINE"),
    Writer("tune-nil", "linker", "tune-nil linker corpus.spacy", state_of_pipeline, "PIPELINE"),
    Writer("tune-lexical", "linker", "tune-lexical linker corpus.spacy", state_of_pipeline, "PIPELINE"),
    Writer("kb add", "linker", "kb add linker new.jsonl", state_of_pipeline, "PIPELINE"),
    Writer("kb update", "linker", "kb update linker changed.jsonl", state_of_pipeline, "PIPELINE"),
    Writer("kb remove", "linker", "kb remove linker D001241 D003490", state_of_pipeline, "PIPELINE"),
    Writer("kb compact", "removed/pel_linker/kb", "kb compact removed/pel_linker/kb", state_of_kb, "KB"),
    Writer("kb patterns", "patterns.jsonl", "kb patterns kb patterns.jsonl", state_of_file),
    Writer("convert", "converted.spacy", "convert gold.pubtator converted.spacy --format pubtator", state_of_file),
    Writer("evaluate", "m.json", "evaluate linker corpus.spacy --output m.json", state_of_file),
]


def make(folder: Path) -> None:
    """Everything that the writers read and write over."""
    folder.mkdir()
    os.chdir(folder)
    for name, steps in (("linker", 6), ("other", 3)):
        nlp, linker, examples, optimizer = make_pipeline(write_encoder(Path("encoder")), make_kb(Path("kb"), KNOWN))
        train(nlp, examples, optimizer, steps=steps)
        linker.index(progress=False)
        linker.tune_nil(make_docs(nlp)[1:])  # the writers that tune have other Docs: they change something
        nlp.to_disk(name)
        write_docs(Path("corpus.spacy"), make_docs(nlp))
        shutil.rmtree("kb")
    make_kb(Path("kb"), KNOWN)
    shutil.copytree("linker", "removed")
    pel_app(["kb", "remove", "removed", "D001241", "D003490"], standalone_mode=False)
    new = [{"id": f"N{i}", "name": f"novel disease {i}", "types": ["Disease"]} for i in range(30)]
    srsly.write_jsonl("new.jsonl", new)
    srsly.write_jsonl("changed.jsonl", [{"id": e.id, "name": f"{e.name} again"} for e in ENTITIES[:4]])
    lines = ["1|t|Aspirin.", "1|a|No fits were seen.", "1\t0\t7\tAspirin\tChemical\tD001241"]
    Path("gold.pubtator").write_text("\n".join(lines) + "\n")
    for writer in WRITERS:
        if isinstance(writer.run, str) and not Path(writer.target).exists() and "." in writer.target:
            Path(writer.target).write_text("before")


class Tries:
    """One writer, tried again and again on a fresh copy."""

    def __init__(self, writer: Writer, made: Path, folder: Path) -> None:
        self.writer, self.made, self.folder = writer, made, folder
        self.log = folder.with_name("log")
        self.before, self.after = self._undisturbed()

    def _fresh(self) -> None:
        os.chdir("/")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.made, self.folder)
        os.chdir(self.folder)

    def _undisturbed(self) -> tuple[str, str]:
        self._fresh()
        before = self.seen()
        calls = self.log.with_name("calls")

        def count() -> None:
            faults.faults_arm(COUNT, 0)
            try:
                self.writer()
            except SystemExit as stop:
                if stop.code:
                    raise
            finally:
                n = faults.faults_seen()
                faults.faults_arm(OFF, 0)
                calls.write_text(str(n))

        code = forked(count, self.log)
        self.calls = int(calls.read_text())
        if code != DONE:
            raise SystemExit(f"{self.writer.name} fails undisturbed: {self.log.read_text()}")
        after = self.seen()
        assert before != after, f"{self.writer.name} changes nothing: {before}"
        self.files = self.names()
        return before, after

    def names(self) -> list[str]:
        """The files that are there, with numbers and hashes made equal, and both names that a part has in turn."""
        here = (path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*"))
        equal = (re.sub(r"[0-9a-f]{8,}", "#", re.sub(r"[.-][0-9]+\b", ".#", name)) for name in here)
        return sorted(re.sub(r"/(vocab|model|kb)[-.]#", r"/\1", name) for name in equal)

    def seen(self) -> str:
        """The state of the target: a digest, "none", "refused: …" or "unreadable: …"."""
        answer = self.log.with_name("state")

        def look() -> None:
            path = self.folder / self.writer.target
            try:
                state = self.writer.state(path) if path.exists() else "none"
            except PelError as error:
                state = f"refused: {error}"
            except Exception as error:
                trace = traceback.extract_tb(error.__traceback__)[-1]
                state = f"unreadable: {type(error).__name__}: {error} ({trace.filename}:{trace.lineno})"
            answer.write_text(state)

        answer.unlink(missing_ok=True)
        code = forked(look, self.log)
        return answer.read_text() if code == DONE else f"unreadable: ended with {code}"

    def outcome(self, state: str) -> str:
        if state in (self.before, self.after):
            return "before" if state == self.before else "after"
        return state.split(":")[0] if state.startswith(("refused", "unreadable")) else "mixed"

    def killed(self, at: int, row: Row) -> None:
        """Kill it at call `at`, look, and run it again."""
        self._try(KILL, at)
        state = self.seen()
        outcome = self.outcome(state)
        row.outcomes[outcome] += 1
        if outcome in ("mixed", "unreadable", "refused"):
            row.notes.append(f"at {at}: {state}")
        code = forked(self.writer, self.log)
        if code == DONE and self.names() != self.files:
            row.outcomes["leftovers stay"] += 1
            row.notes.append(f"at {at}: {sorted(set(self.names()) ^ set(self.files))}")
        if code == TRACEBACK:
            row.outcomes["traceback of the next run"] += 1
            row.notes.append(f"at {at}: {self.log.read_text()[-600:]}")

    def full(self, at: int, row: Row) -> None:
        """Let the disk be full from call `at` on, and look."""
        code = self._try(FULL, at)
        said = self.log.read_text()
        state = self.seen()
        outcome = self.outcome(state)
        row.outcomes[outcome] += 1
        if outcome in ("mixed", "unreadable", "refused"):
            row.notes.append(f"at {at}: {state}")
        if code == TRACEBACK:
            row.outcomes["traceback"] += 1
            row.notes.append(f"at {at}: {said[-600:]}")
        if code == DONE and outcome == "before":
            row.outcomes["silently not written"] += 1

    def _try(self, mode: int, at: int) -> int:
        self._fresh()

        def work() -> None:
            faults.faults_spare(sys.stdout.fileno())
            faults.faults_arm(mode, at)
            try:
                self.writer()
            finally:
                faults.faults_arm(OFF, 0)

        return forked(work, self.log)


def main(folder: Path, factor: float, seed: int = 0, only: str = "") -> None:
    draw = random.Random(seed)
    made = folder / "made"
    folder.mkdir(parents=True)
    if forked(lambda: make(made), folder / "log"):
        raise SystemExit((folder / "log").read_text())
    for writer in WRITERS:
        if only and only != writer.name:
            continue
        tries = Tries(writer, made, folder / "tried")
        for fault, method in (("killed", tries.killed), ("disk full", tries.full)):
            row = Row(writer.name, fault, tries.calls)
            n = min(tries.calls, max(2, round(factor * MANY[writer.kind])))
            start = perf_counter()
            for at in sorted(draw.sample(range(1, tries.calls + 1), n)):
                method(at, row)
            print(f"{writer.name}: {(perf_counter() - start) / n:.1f} s a try", file=sys.stderr)
            print(json.dumps({**vars(row), "notes": row.notes[:5]}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), *(int(a) for a in sys.argv[3:4]), *sys.argv[4:5])
