"""One byte of what `pel_linker` has saved is another: what loading, linking and verifying say of it.

Run as a script: `python flipping.py FOLDER N SEED` prints a line of JSON for each file.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import spacy

sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script
from forks import DONE, forked
from tiny import make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.pipeline.verifying import verify_linker

SECONDS = 120


def make(folder: Path) -> None:
    """A tuned pipeline whose KB was changed since it was indexed."""
    folder.mkdir()
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 6)
    linker.index(progress=False)
    linker.tune_names(make_docs(nlp))
    nlp.to_disk(folder / "pipeline")
    kept = spacy.load(folder / "pipeline").get_pipe("pel_linker")
    kept.add_entities([Entity("NEW", "a new disease", ("novel fits",))])
    kept.remove_entities(["D003000"])


def links(path: Path) -> tuple[str, spacy.Language]:
    nlp = spacy.load(path)
    found = [
        [ent.kb_id_, [[id, round(score, 3)] for id, score in ent._.kb_ents]]
        for doc in nlp.pipe(make_docs(nlp))
        for ent in doc.ents
    ]
    return json.dumps(found), nlp


def look(path: Path, answer: Path, expected: str) -> None:
    """Write what comes of loading, linking and verifying the pipeline at `path`."""
    warnings.simplefilter("ignore")
    signal.alarm(SECONDS)
    try:
        found, nlp = links(path)
        problems = verify_linker(nlp.get_pipe("pel_linker"))
    except PelError:
        answer.write_text("refused")
        return
    seen = "seen" if problems else "unseen"
    answer.write_text(f"{'same' if found == expected else 'OTHER'} links, {seen}")


def flip(file: Path, draw: random.Random) -> str:
    """Change a byte, and say which."""
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data))
    before, data[place] = data[place], data[place] ^ (1 << draw.randrange(8))
    file.unlink()  # it may be linked to the whole one
    file.write_bytes(data)
    return f"{file.name} at {place}: {before:#x} to {data[place]:#x}"


def main(folder: Path, n: int, seed: int) -> None:
    folder.mkdir(parents=True)
    draw, log, answer = random.Random(seed), folder / "log", folder / "answer"
    expected = folder / "expected"
    made, tried = folder / "made", folder / "tried"

    def prepare() -> None:
        make(made)
        expected.write_text(links(made / "pipeline")[0])

    if forked(prepare, log) != DONE:
        raise SystemExit(log.read_text())
    linker = made / "pipeline" / "pel_linker"
    files = sorted(path for path in linker.rglob("*") if path.is_file() and path.stat().st_size)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    notes: dict[str, list[str]] = defaultdict(list)
    for number in range(n):
        file = files[number % len(files)]
        name = file.relative_to(linker).as_posix()
        shutil.rmtree(tried, ignore_errors=True)
        shutil.copytree(made / "pipeline", tried)
        what = flip(tried / "pel_linker" / name, draw)
        answer.unlink(missing_ok=True)
        code = forked(lambda: look(tried, answer, expected.read_text()), log)
        outcome = answer.read_text() if code == DONE else f"SIGNAL {-code}" if code < 0 else "RAW ERROR"
        outcomes[name][outcome] += 1
        if outcome.isupper() or "OTHER" in outcome or "SIGNAL" in outcome:
            notes[name].append(f"{what}: {outcome} {log.read_text()[-500:]}")
    for name, counts in outcomes.items():
        print(json.dumps({"file": name, "outcomes": counts, "notes": notes[name][:3]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
