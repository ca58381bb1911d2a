"""Batches that are encoded side by side: in order, with the threads there are, and to the same vectors."""

from __future__ import annotations

import time
from threading import Barrier, Thread, get_ident

import numpy as np
import pytest
import torch
from tiny import ENTITIES, make_kb, make_pipeline, write_encoder

from spacy_pel.models import encoder as towers
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.models.side_by_side import MOST_AT_ONCE, side_by_side


@pytest.fixture()
def with_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_results_come_in_order_and_work_is_shared(with_threads):
    with_threads(2)
    both = Barrier(2)

    def work(number):
        if number < 2:
            both.wait(timeout=60)
        time.sleep(0.05 if number == 0 else 0.0)
        return number, get_ident(), torch.get_num_threads()

    made = side_by_side(work, range(6))
    assert [number for number, _, _ in made] == list(range(6))
    workers = {thread for _, thread, _ in made}
    assert len(workers) == 2 and get_ident() not in workers
    assert {threads for _, _, threads in made} == {1}


@pytest.mark.parametrize(("threads", "items", "each"), [(4, 2, 2), (5, 2, 2), (2 * MOST_AT_ONCE + 1, 99, 2), (1, 3, 1)])
def test_the_threads_of_pytorch_are_shared_out_and_left_as_they_were(with_threads, threads, items, each):
    with_threads(threads)
    assert set(side_by_side(lambda _: torch.get_num_threads(), range(items))) == {each}
    assert torch.get_num_threads() == threads
    others = []
    Thread(target=lambda: others.append(torch.get_num_threads())).start()
    while not others:
        time.sleep(0.001)
    assert others == [threads], "a thread that begins later has them all"


@pytest.mark.parametrize("items", [0, 1])
def test_few_are_done_here(with_threads, items):
    with_threads(4)
    assert side_by_side(lambda _: (get_ident(), torch.get_num_threads()), range(items)) == [(get_ident(), 4)] * items


def test_what_is_raised_is_raised(with_threads):
    with_threads(2)

    def work(number):
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        side_by_side(work, range(4))
    assert torch.get_num_threads() == 2


def test_where_no_thread_can_be_started_that_is_raised(with_threads, monkeypatch):
    with_threads(2)
    start, started = Thread.start, []

    def refused(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(start(thread))

    monkeypatch.setattr(Thread, "start", refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        side_by_side(lambda item: item, range(4))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_vectors_are_those_of_one_after_the_other(tmp_path, monkeypatch, with_threads, precision):
    _, linker, _, _ = make_pipeline(
        write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), model={"precision": precision}
    )
    rows = row_builder(linker.model).entities([*ENTITIES] * 5)
    monkeypatch.setitem(towers.TOKENS_AT_ONCE, "cpu", 64)
    with_threads(1)
    one_by_one = encode_entity_rows(linker.model, rows)
    with_threads(2)
    calls = []

    def noted(function, items):
        calls.append(len(items))
        return side_by_side(function, items)

    monkeypatch.setattr(towers, "side_by_side", noted)
    assert np.array_equal(encode_entity_rows(linker.model, rows), one_by_one)
    assert calls and calls[0] > 2
