"""Ctrl-C and SIGTERM wait for the end of a block; SIGTERM is raised once."""

import os
import signal

import pytest

from spacy_pel.cli.interrupts import Terminated, interrupts_held, status_after, terminable


def test_an_interrupt_takes_effect_when_the_block_is_done():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        done.append("block")
    assert done == ["block"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_error_within_the_block_comes_through():
    with pytest.raises(ZeroDivisionError), interrupts_held():
        raise ZeroDivisionError


def test_the_first_sigterm_is_raised_once_the_block_is_done():
    done, before = [], signal.getsignal(signal.SIGTERM)
    with terminable():
        try:
            with interrupts_held():
                signal.raise_signal(signal.SIGTERM)
                done.append("block")
        except KeyboardInterrupt as interrupt:
            assert isinstance(interrupt, Terminated) and status_after(interrupt) == 143
            signal.raise_signal(signal.SIGTERM)  # a second one is passed over
            done.append("end")
    assert done == ["block", "end"] and signal.getsignal(signal.SIGTERM) is before
    assert status_after(KeyboardInterrupt()) == 130


def test_a_forked_process_ends_at_sigterm():
    with terminable():
        child = os.fork()
        if not child:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
