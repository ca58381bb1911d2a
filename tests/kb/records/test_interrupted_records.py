"""Ctrl-C at any bytecode of a look-up or a change: the KB object goes on, and nobody is locked out."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tiny import unit_vectors

import spacy_pel
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.verify import verify

DIM = 4
OURS = tuple(f"kb/{file}.py" for file in ("knowledge_base", "damage", "changes", "names/name_index")) + tuple(
    f"{folder}/{path.name}"
    for folder in ("kb/records", "kb/index")
    for path in (Path(spacy_pel.__file__).parent / folder).glob("*.py")
)
OURS += ("contextlib.py",)


def interrupted_at(number: int, call: Callable[[], object]) -> BaseException | None:
    """Raise `KeyboardInterrupt` before the bytecode with that number within `call`; None where it ends before."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.endswith(OURS):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"  # as signals are: never while a generator that nobody reads on is thrown away
        if count == number:
            raise KeyboardInterrupt
        return trace

    gc.disable()  # else generators that other tests have left in circles may be thrown away within `call`
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt as error:
        return error  # kept alive, as a notebook does: and its frames with it
    finally:
        sys.settrace(None)
        gc.enable()
    return None


def check_unlocked(path) -> None:
    with closing(sqlite3.connect(path / "entities.sqlite", timeout=0, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")


@pytest.fixture
def searched(tmp_path) -> KnowledgeBase:
    entities = [Entity(f"E{i}", f"name {i}", (f"alias {i}",), ("even" if i % 2 else "odd",)) for i in range(6)]
    kb = KnowledgeBase.create(tmp_path / "kb", entities)
    kb.index([unit_vectors(6, DIM)], dim=DIM, metric="cosine", fingerprint="a")
    return kb


LOOK_UPS = {
    "get": lambda kb: kb["E3"],
    "ids": lambda kb: kb.ids(np.arange(6)),
    "names": lambda kb: kb.names.match("alias 3").best(2),
    "types": lambda kb: kb.rows_of_types(["odd"]),
    "search": lambda kb: kb.entity_index("a").search(np.eye(1, DIM, dtype="float32"), 2),
    "open": lambda kb: KnowledgeBase(kb.path)["E3"],
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_look_up_can_be_interrupted_at_any_bytecode(searched, name):
    look_up = LOOK_UPS[name]
    look_up(searched)  # what is imported and cached, is
    number, step = 1, {"open": 41, "search": 5, "names": 1}.get(name, 1)
    while (error := interrupted_at(number, lambda: look_up(searched))) is not None:
        check_unlocked(searched.path)
        assert searched["E3"].name == "name 3" and error.__traceback__
        number += step
    assert number > 200


CHANGES = {
    "add": lambda kb: kb.add([Entity("N", "new")], NewVectors("a", unit_vectors(1, DIM))),
    "update": lambda kb: kb.update([Entity("E3", "other")], NewVectors("a", unit_vectors(1, DIM))),
    "remove": lambda kb: kb.remove(["E3"]),
    "index": lambda kb: kb.index([unit_vectors(6, DIM)[::-1]], dim=DIM, metric="cosine", fingerprint="a"),
    "compact": lambda kb: kb.compact(),
}


def seen(kb: KnowledgeBase) -> tuple:
    scores, rows = kb.entity_index("a").search(unit_vectors(6, DIM), 7)
    names = [entity.name for entity in kb.entities()]
    return (
        kb.ids(rows).tolist(),
        scores.tolist(),
        names,
        kb.live_rows.tolist(),
        len(kb),
        kb.rows_of_types(["odd"]).tolist(),
    )


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_can_be_interrupted(searched, tmp_path, change):
    """The KB is as before or as after, and the interrupted object sees just that."""
    if change is CHANGES["compact"]:
        searched.remove(["E1"])
        searched.add([Entity("M", "more")], NewVectors("a", unit_vectors(1, DIM)))
    number, outcomes = 1, set()
    before = seen(searched)
    searched.close()
    while True:
        path = shutil.copytree(searched.path, tmp_path / "changed")
        kb = KnowledgeBase(path)
        seen(kb)
        error = interrupted_at(number, partial(change, kb))
        check_unlocked(path)
        now = seen(kb)
        assert now == seen(KnowledgeBase(path)) and verify(kb) == []
        if error is None:
            break
        outcomes.add(now == before)
        kb.remove(["E5"])  # it can be changed again
        assert "E5" not in kb and verify(kb) == []
        kb.close()
        shutil.rmtree(path)
        number += 997
    assert (True in outcomes and now != before) or change is CHANGES["compact"]
