"""spaCy's commands from a notebook, as in a shell."""

from __future__ import annotations

import os
import subprocess
import sys


def run(*command: object, show: bool = True) -> None:
    """`python -m spacy` with these arguments; what it prints is shown when it has ended, and an error is raised."""
    arguments = [sys.executable, "-m", "spacy", *map(str, command)]
    environment = os.environ | {"ANSI_COLORS_DISABLED": "1"}
    done = subprocess.run(arguments, capture_output=True, text=True, encoding="utf-8", env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[1:])}\n{done.stdout}\n{done.stderr}")
    if show:
        print("\n".join(line.rstrip() for line in done.stdout.strip().splitlines()))
