"""Writes `docs/api.md` from the docstrings: `python docs/api.py`. The tests fail where it is out of date."""

from __future__ import annotations

import ast
import configparser
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from thinc.api import Config
from typer.main import get_command

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.pipeline.linker import DEFAULT_CONFIG, PelLinker, make_linker
from spacy_pel.search.explanation import Explanation, Parts, ScoredEntity

PAGE, SETUP = Path(__file__).with_name("api.md"), Path(__file__).parents[1] / "setup.cfg"
HEAD = "<!-- Written by docs/api.py, from the docstrings. -->\n\n# API"
CLASSES = (PelLinker, KnowledgeBase, Entity, Explanation, ScoredEntity, Parts, PelError)
NAMES = r"(?:RETURNS|RAISES|[a-z]\w*(?:, [a-z]\w*)*)(?: \([^)]*\))?"
FIELDS = re.compile(rf"(?:^|(?<=[.`]) )({NAMES}): ")  # of a docstring: "name: what it is. other: what that is."
SEE = re.compile(r"[Ss]ee `(\w+)`")


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## pel_linker", *_component(), "## Classes"]
    for cls in CLASSES:
        parts += _class(cls)
    parts += ["## Registered functions", *_registered(), "## Commands", *_commands(get_command(pel_app), "spacy pel")]
    return "\n\n".join(parts) + "\n"


def _component() -> Iterator[str]:
    yield "What the config says where it says nothing:"
    block = {"factory": "pel_linker", **DEFAULT_CONFIG}
    yield _fenced(Config({"components": {"pel_linker": block}}).to_str(), "ini")
    yield _prose(make_linker)


def _class(cls: type) -> Iterator[str]:
    yield f"### {cls.__name__}"
    yield f"`from {cls.__module__} import {cls.__name__}`"
    if is_dataclass(cls) or hasattr(cls, "_fields"):
        yield _fenced(_fields(cls))
    yield _prose(cls)
    own = [base for base in cls.__mro__ if base.__module__.startswith("spacy_pel.")]
    members = {name: member for base in own[::-1] for name, member in vars(base).items()}
    for name in dict.fromkeys(name for base in own for name in vars(base)):
        member = members[name]
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"#### {cls.__name__}.{name}"
            yield _fenced(_signature(function))
            if function.__doc__:
                yield _prose(function)


def _registered() -> Iterator[str]:
    """The entry points of setup.cfg."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(SETUP, encoding="utf-8")
    for group, lines in config["options.entry_points"].items():
        registry = group.removeprefix("spacy_").removeprefix("thinc_")
        for line in lines.strip().splitlines() if registry not in ("factories", "cli") else ():
            name, value = (part.strip() for part in line.split("=", 1))
            function = EntryPoint(name, value, group).load()
            yield f"### {name}"
            yield f"For `@{registry}`."
            yield _fenced(_signature(function))
            yield _prose(function).removeprefix(f"`{name}`: ")
            for other in SEE.findall(function.__doc__ or ""):
                yield _prose(getattr(sys.modules[function.__module__], other))


def _commands(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
            continue
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        options = [param for param in command.params if param.param_type_name == "option"]
        yield f"### {prefix} {name}"
        words = ["python -m", prefix, name, *map(_metavar, arguments), "[OPTIONS]" if options else ""]
        yield _fenced(" ".join(words), "text")
        yield re.sub(r"Example: (.*)", r"Example: `\1`", command.help)
        rows = [(_metavar(param), _help(param)) for param in arguments]
        rows += [(", ".join(param.opts), _help(param)) for param in options]
        yield "\n".join(["| | |", "| --- | --- |", *(f"| `{left}` | {right} |" for left, right in rows)])


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper() + (" …" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _help(param: Any) -> str:
    has_default = param.default not in (None, False, "", -1) and not param.required
    return param.help.replace("|", "\\|") + (f" [default: {param.default}]" if has_default else "")


def _fields(cls: type) -> str:
    source = inspect.getsource(cls)
    nodes = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return "\n".join(str(ast.get_source_segment(source, node)) for node in nodes if isinstance(node, ast.AnnAssign))


def _signature(function: Any) -> str:
    """As it is written in the source, with its decorators."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    header = source.splitlines()[: ast.parse(source).body[0].body[0].lineno - 1]  # type: ignore[attr-defined]
    return "\n".join(header) + " ..."


def _prose(documented: Any) -> str:
    """A docstring as Markdown, with its fields as a list."""
    paragraphs = inspect.getdoc(documented).split("\n\n")  # type: ignore[union-attr]
    return "\n\n".join(p if p.startswith("    ") else _listed(p) for p in paragraphs)


def _listed(paragraph: str) -> str:
    text, *fields = FIELDS.split(" ".join(line.strip() for line in paragraph.splitlines()))
    items = [f"- {_name(name)}: {what.strip()}" for name, what in zip(fields[::2], fields[1::2], strict=True)]
    return "\n\n".join(filter(None, [text.strip(), "\n".join(items)]))


def _name(name: str) -> str:
    return name if name.isupper() else re.sub(r"(?<![(\w])([a-z]\w*)(?=,|$| \()", r"`\1`", name)


def _fenced(code: str, language: str = "py") -> str:
    return f"```{language}\n{code.strip()}\n```"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
