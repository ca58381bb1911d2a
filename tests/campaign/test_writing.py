"""What is left of a write that was killed, or that met a full disk: what was there before, or all of what is new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import srsly
from campaign import FACTOR, SEED, print_table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

HERE = Path(__file__).parent
WHOLE = {"before", "after", "refused"}


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler")
def test_killed_and_full(tmp_path):
    library = tmp_path / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "faults.c", "-ldl"], check=True)
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, HERE / "writing.py", tmp_path / "work", str(FACTOR), str(SEED)]
    run = subprocess.run(
        command, env={**os.environ, **one_thread, "LD_PRELOAD": str(library)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    rows = [srsly.json_loads(line) for line in run.stdout.splitlines()]
    print_table(
        ("writer", "fault", "calls", "outcomes"),
        [(row["writer"], row["fault"], row["calls"], row["outcomes"]) for row in rows],
    )
    bad = [row for row in rows if row["outcomes"].keys() - WHOLE]
    assert not bad, bad
    total = sum((Counter(row["outcomes"]) for row in rows), Counter())
    assert total["before"] and total["after"], total
