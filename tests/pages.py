"""The blocks of code of a Markdown page, run in their order as a reader would.

An HTML comment on the line before a block says what is not usual about it:

    <!-- not run -->         it is only compiled, or parsed
    <!-- needs scispacy -->  it is only compiled where that package is not installed
    <!-- prints -->          of a ```text block: what the Python block before it prints, whatever the scores; not
                             compared where that was not run for want of a package
    <!-- file new.jsonl -->  it is the content of that file
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import spacy.cli  # noqa: F401  (its commands register themselves)
from spacy import registry
from spacy.cli._util import app as spacy_app
from spacy.language import Language
from spacy.schemas import ConfigSchemaInit, ConfigSchemaTraining
from spacy.util import load_model_from_config
from thinc.api import Config
from typer.main import get_command
from typer.testing import CliRunner

from spacy_pel.cli import pel_app

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
SCORE = re.compile(r"-?\d+\.\d+")
PEL = ["python", "-m", "spacy", "pel"]
ELSEWHERE = ("pip", "pytest", "hf", "huggingface-hub")  # neither run nor parsed


class Block(NamedTuple):
    """line: its first line of code in the page, from 1."""

    line: int
    mark: str
    language: str
    code: str

    @property
    def is_run(self) -> bool:
        package = self.mark.removeprefix("needs ")
        return self.mark != "not run" and (package == self.mark or find_spec(package) is not None)


def blocks(text: str) -> list[Block]:
    return [
        Block(text.count("\n", 0, found.start("code")) + 1, found["mark"] or "", found["language"], found["code"])
        for found in BLOCK.finditer(text)
    ]


def run(page: Path, config: Path) -> None:
    """Run the blocks of `page` in the present folder; those of ```ini are laid over the file `config`."""
    namespace: dict[str, Any] = {}
    printed: str | None = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        if block.mark.startswith("file "):
            Path(block.mark.removeprefix("file ")).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            if block.is_run:
                printed = _printed(code, namespace)
            elif block.mark.startswith("needs "):
                printed = None
        elif block.language == "bash":
            for words in commands(block.code):
                _command(words, where, is_run=block.is_run)
        elif block.language == "ini":
            resolve(_part_of_config(block.code), config)
        elif block.mark == "prints" and printed is not None:
            assert SCORE.sub("#", printed) == SCORE.sub("#", block.code), f"{where}: this is printed:\n{printed}"


def _printed(code: Any, namespace: dict[str, Any]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


def commands(code: str) -> Iterator[list[str]]:
    """The words of each command, without comments."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def _command(words: list[str], where: str, *, is_run: bool) -> None:
    """Run a command of spacy-pel or of the shell. Those of spaCy are parsed: they take long."""
    if words[:4] == PEL and is_run:
        result = CliRunner().invoke(pel_app, words[4:])
        assert result.exit_code == 0, f"{where}: {shlex.join(words)}\n{result.output}"
    elif words[:3] == PEL[:3] and words[3] not in ELSEWHERE:
        parse(words[3:])
    elif is_run and not set(words[:4]) & set(ELSEWHERE):
        line = " ".join(word if word in (">", "|") else shlex.quote(word) for word in words)
        subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True, timeout=60)


def parse(words: list[str]) -> None:
    """Parse the arguments of one of spaCy's commands.

    Raises:
        UsageError: If the command does not take them (click's).
    """
    command: Any = get_command(spacy_app)
    words = list(words)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"python -m spacy has no {words}"
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


def _part_of_config(code: str) -> Config:
    """`code`, whose sections may stand without those above them."""
    sections = re.findall(r"^\[(.+)\]$", code, re.MULTILINE)
    above = {
        ".".join(parts[:i]): None for parts in (name.split(".") for name in sections) for i in range(1, len(parts))
    }
    return Config().from_str("".join(f"[{name}]\n" for name in above if name not in sections) + code, interpolate=False)


def resolve(block: Config, base: Path) -> None:
    """Build everything that the config at `base`, with `block` laid over it, names."""
    config = Config().from_disk(base, interpolate=False).merge(block)
    load_model_from_config(config, auto_fill=True)
    whole = Language.default_config.merge(config).interpolate()
    unknown = whole["training"].keys() - ConfigSchemaTraining.model_fields.keys()
    assert not unknown, f"[training] has no {unknown}"  # which spaCy passes over
    registry.resolve(whole["training"], schema=ConfigSchemaTraining)
    registry.resolve(whole["initialize"], schema=ConfigSchemaInit)
    registry.resolve(whole["corpora"])
