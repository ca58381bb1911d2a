"""Where the projects and the real data are, the scripts of a project as modules, and a project that is run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from warm import run_python

ROOT = Path(__file__).parents[1]
PROJECTS = ROOT / "projects"
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real data is not beside the repository (../shared/data)")


def load_script(path: Path, name: str | None = None) -> ModuleType:
    """The script at `path` as a module of that name, by default that of the file. It may import others beside it."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # typer and dataclasses read the annotations from there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def run_project(folder: Path, workflow: str, seconds: int = 1400, cold: bool = False, **variables: object) -> str:
    """What `spacy project run` prints, run by weasel, which spaCy hands it to. cold: for `run_python`."""
    command = ["-m", "weasel", "run", workflow, str(folder)]
    command += [part for name, value in variables.items() for part in (f"--vars.{name}", str(value))]
    run = run_python(*command, seconds=seconds, cold=cold)
    assert run.returncode == 0, f"{run.stdout[-4000:]}\n{run.stderr[-4000:]}"
    return run.stdout
