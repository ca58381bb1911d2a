"""A byte that is another is refused, changes nothing, or is found by `verify`; nothing crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import srsly
from campaign import FACTOR, SEED, print_table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0), pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

GOOD = {"refused", "same links, seen", "same links, unseen", "OTHER links, seen"}


def test_no_flipped_byte_gives_other_links_unseen(tmp_path):
    script = Path(__file__).parent / "flipping.py"
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, script, tmp_path / "work", str(round(50 * FACTOR)), str(SEED)]
    run = subprocess.run(command, env={**os.environ, **one_thread}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    rows = [srsly.json_loads(line) for line in run.stdout.splitlines()]
    print_table(("file", "outcomes"), [(row["file"], row["outcomes"]) for row in rows])
    bad = [row for row in rows if row["outcomes"].keys() - GOOD]
    assert rows and not bad, bad
