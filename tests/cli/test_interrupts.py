"""Ctrl-C waits for the end of a block."""

import signal

import pytest

from spacy_pel.cli.interrupts import interrupts_held


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
