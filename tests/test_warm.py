"""A command of a warm process does what one of a process of its own does."""

from __future__ import annotations

import textwrap

import pytest
from warm import run_python

OUTER = """
import os, subprocess, sys
import beside

print("outer", sys.argv[1:], os.environ["GIVEN"], beside.NAME)
done = subprocess.run([sys.executable, "inner/script.py", "x"], env=os.environ | {"GIVEN": "another"})
print("status", done.returncode, os.environ["GIVEN"])
subprocess.run([sys.executable, "inner/script.py"], check=True)
"""
INNER = """
import os, sys
import beside

print("inner", sys.argv[1:], os.environ["GIVEN"], beside.NAME, sep=" | ")
print("said", file=sys.stderr)
sys.exit(3 if sys.argv[1:] else "no word")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for path, script in ((tmp_path, OUTER), (tmp_path / "inner", INNER)):
        path.mkdir(exist_ok=True)
        (path / "script.py").write_text(textwrap.dedent(script))
        (path / "beside.py").write_text(f"NAME = {path.name!r}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIVEN", "one")
    return tmp_path


def test_it_is_as_cold_ones_are(folder):
    """What they print and in which order, their status, environment, arguments, and the modules beside them."""
    cold, warm = (run_python("script.py", "a", "b", cold=cold) for cold in (True, False))
    assert warm.stdout.splitlines() == [
        f"outer ['a', 'b'] one {folder.name}",
        "inner | ['x'] | another | inner",
        "status 3 one",
        "inner | [] | one | inner",
    ]
    assert sorted(warm.stdout.splitlines()) == sorted(cold.stdout.splitlines())  # a cold one prints what it has last
    for found in (cold, warm):
        said = found.stderr.splitlines()
        assert found.returncode != 0 and said[:3] == ["said", "said", "no word"], found.stderr
        assert said[-1].endswith("returned non-zero exit status 1.")


def test_a_module_and_what_lasts_too_long():
    assert run_python("-m", "weasel", "--help").stdout.count("Usage") == 1
    with pytest.raises(TimeoutError):
        run_python("-m", "timeit", "-n", 1, "-r", 1, "-s", "import time", "time.sleep(60)", seconds=1)
    done = run_python("-m", "spacy", "pel", "no-such-command")
    assert done.returncode == 2 and "No such command" in done.stderr and not done.stdout
