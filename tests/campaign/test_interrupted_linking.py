"""Ctrl-C at any moment of linking: the next link is what it would have been."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import srsly
from campaign import FACTOR, SEED, print_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not hasattr(signal, "ITIMER_VIRTUAL"), reason="needs timers of the system"),
]

INTERRUPTS = round(100 * FACTOR)


def test_ctrl_c_while_linking(tmp_path):
    script = Path(__file__).parent / "interrupting.py"  # of its own, so that no interrupt meets the test's process
    command = [sys.executable, "-X", "faulthandler", script, tmp_path / "work", str(INTERRUPTS), str(SEED)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, f"exit code {run.returncode}: {run.stderr[-6000:]}"
    outcomes = srsly.json_loads(run.stdout.splitlines()[-1])
    print_table(("what", "times"), sorted(outcomes.items()))
    assert set(outcomes) == {"interrupted", "same links"}, outcomes
    assert outcomes["interrupted"] > INTERRUPTS / 2, outcomes
