"""What the package promises from outside: its entry points, its cheap factories, its version and its README."""

from __future__ import annotations

import configparser
import inspect
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language

import spacy_pel

ROOT = Path(__file__).parents[1]

# Values for the arguments that have no default, by registered name.
REQUIRED: dict[str, dict[str, Any]] = {
    "spacy_pel.HFEncoder.v1": {"name": "assets/encoder"},
    "spacy_pel.Distillation.v1": {"path": "corpus/targets.jsonl"},
    "spacy_pel.KBFromDisk.v1": {"path": Path("kb")},
    "spacy_pel.MentionCorpus.v1": {"path": Path("corpus/train.spacy")},
    "spacy_pel.AliasCorpus.v1": {"kb": Path("kb")},
    "spacy_pel.MixedCorpus.v1": {"mentions": iter, "aliases": iter},
    "spacy_pel.batch_by_mentions.v1": {"size": 32},
    "spacy_pel.AdamW.v1": {"learn_rate": 1e-4},
    "spacy_pel.warmup_linear.v1": {"initial_rate": 1e-4, "total_steps": 100},
    "spacy_pel.StepLogger.v1": {"path": Path("training/steps.jsonl")},
}


def registry_of(group: str) -> str:
    """Of an entry point: optimizers and schedules are thinc's."""
    return re.sub("^(spacy|thinc)_", "", group)


def advertised() -> list[tuple[str, str, str]]:
    """(registry, name, module:object) of every entry point in setup.cfg."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return [
        (registry_of(group), *(part.strip() for part in line.split("=", 1)))
        for group, lines in config["options.entry_points"].items()
        for line in lines.strip().splitlines()
    ]


FUNCTIONS = [(registry, name) for registry, name, _ in advertised() if registry not in ("factories", "cli")]


def test_the_installed_entry_points_are_those_of_setup_cfg():
    installed = {(registry_of(e.group), e.name, e.value) for e in distribution("spacy-pel").entry_points}
    assert installed == set(advertised())


@pytest.mark.parametrize(("registry", "name", "value"), advertised())
def test_entry_point_resolves_through_its_registry(registry, name, value):
    target = EntryPoint(name, value, registry).load()
    if registry == "factories":
        spacy.blank("en")  # where spaCy loads the factories of other packages
        assert Language.has_factory(name)
    elif registry == "cli":
        assert spacy.registry.cli.get(name) is target
    else:
        assert spacy.registry.get(registry, name) is target


@pytest.mark.parametrize(("registry", "name"), FUNCTIONS)
def test_registered_function_is_callable_with_its_defaults(registry, name):
    function = spacy.registry.get(registry, name)
    parameters = inspect.signature(function).parameters.values()
    without_default = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    assert without_default == set(REQUIRED.get(name, {}))
    assert function(**REQUIRED.get(name, {})) is not None


def test_component_is_built_with_its_defaults():
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker")
    assert nlp.pipe_names == ["pel_linker"]
    assert linker.kb is None


def test_factories_import_neither_torch_nor_transformers_nor_faiss():
    # thinc itself imports torch where it can, so the three are made impossible to import, and what asks for them after
    # spaCy is loaded is recorded.
    code = """
import sys
from importlib.metadata import distribution

class Recorder:
    asked = []
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "faiss"):
            self.asked.append(name)
            raise ImportError(name)

sys.meta_path.insert(0, Recorder())
import spacy
assert "torch" in Recorder.asked, "the recorder saw nothing"
Recorder.asked.clear()
factories = [e for e in distribution("spacy-pel").entry_points if e.group == "spacy_factories"]
assert factories
for entry_point in factories:
    entry_point.load()
assert not Recorder.asked, Recorder.asked
assert not {"torch", "transformers", "faiss"} & set(sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


def test_version_is_the_top_entry_of_the_changelog():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == spacy_pel.__version__ == distribution("spacy-pel").version


def test_python_blocks_of_the_readme_compile():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for number, block in enumerate(blocks):
        compile(block, f"README.md, python block {number}", "exec")


def test_the_readme_has_the_test_command_that_ci_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.search(r"<!-- test command -->\n```bash\n(.*?)\n```\n<!-- end -->", readme, re.S)
    assert marked
    assert marked.group(1) == "python -m pytest -q"


def test_the_wheel_has_the_templates_and_the_sdist_no_tests(tmp_path):
    files = "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"
    for name in files:
        shutil.copy(ROOT / name, tmp_path)
    package = Path(spacy_pel.__file__).parent  # the installed one, where the checkout has none
    for folder in (package, ROOT / "tests"):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    commands = "egg_info", "build_py", "sdist", "--formats=tar"
    run = subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", *commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0 and "absent from" not in run.stdout + run.stderr, run.stderr
    assert (tmp_path / "build" / "lib" / "spacy_pel" / "cli" / "templates" / "train.cfg").is_file()
    (sdist,) = (tmp_path / "dist").glob("*.tar")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"constraints.txt", "CHANGELOG.md", "spacy_pel/cli/templates/train.cfg"} <= names
    assert not [name for name in names if name.startswith("tests")]
