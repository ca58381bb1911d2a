"""What the site takes from the code and from the rest of the repository while `mkdocs build` runs.

Three comments in a page are replaced:

    <!-- registered spacy_pel.ProxyLoss.v1 -->  a heading, the registry, and the docstring behind that entry point
    <!-- default config -->                     the `[components.pel_linker]` that spaCy writes for a new linker
    <!-- commands -->                           every command with its arguments and options

The line that says where to read a page of the API is left out.

Links to files outside `docs/` work on GitHub as they stand. On the site a figure of a project is copied beside the
pages, and another link leads to the repository, or, where `repo_url` is not set, becomes plain text.
"""

from __future__ import annotations

import configparser
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
READ_HERE = "*Filled in from the code: read this page by `mkdocs serve` (extra `docs`).*\n\n"
FIGURES = "projects/*/figures/*.svg"
REGISTERED = re.compile(r"^<!-- registered (\S+) -->$", re.MULTILINE)
LINK_OUT = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the figures of the projects beside the pages."""
    from mkdocs.structure.files import File

    for path in sorted(ROOT.glob(FIGURES)):
        files.append(File.generated(config, figure(path.relative_to(ROOT).as_posix()), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Expand the comments of a page and turn its links to the rest of the repository."""
    return turn_links(expand(markdown), page.file.src_uri, config.repo_url or "")


def expand(markdown: str) -> str:
    """A page with its comments replaced.

    Raises:
        KeyError: If a page names a function that `setup.cfg` does not register.
    """
    markdown = REGISTERED.sub(lambda found: registered(found[1]), markdown.replace(READ_HERE, ""))
    if "<!-- default config -->" in markdown:
        markdown = markdown.replace("<!-- default config -->", f"```ini\n{default_config()}\n```")
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return markdown


def registered(name: str) -> str:
    """The mkdocstrings directive of a registered function, headed by the line that names it in a config."""
    registry, target = entry_points()[name]
    return (
        f"::: {target.replace(':', '.')}\n    options:\n      members: false\n"
        f"      heading: '@{registry} = \"{name}\"'\n      toc_label: {name.removeprefix('spacy_pel.')}\n"
    )


@cache
def entry_points() -> dict[str, tuple[str, str]]:
    """Registry and `module:object` of every name in `setup.cfg`, apart from spaCy's own `pel_linker` and `pel`."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    found = {}
    for group, lines in config["options.entry_points"].items():
        registry = re.sub("^(spacy|thinc)_", "", group)
        for line in lines.strip().splitlines() if registry not in ("factories", "cli") else ():
            name, target = (part.strip() for part in line.split("=", 1))
            found[name] = (registry, target)
    return found


def default_config() -> str:
    """The block that spaCy fills in for a linker without any settings."""
    import spacy
    from spacy.language import Language
    from thinc.api import Config

    spacy.blank("en")  # loads the factories of installed packages
    settings = Language.get_factory_meta("pel_linker").default_config
    block = {"factory": "pel_linker", **settings}
    return Config({"components": {"pel_linker": block}}).to_str().removeprefix("[components]").strip()


def commands() -> str:
    """Every command below `spacy pel`: its usage, its help, and a table of its arguments and options."""
    from typer.main import get_command

    from spacy_pel.cli import pel_app

    return "\n\n".join(described(name, command) for name, command in leaves(get_command(pel_app)).items())


def leaves(group: Any, prefix: str = "") -> dict[str, Any]:
    """The commands below `group` by their names, such as "kb add"."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= leaves(command, f"{prefix}{name} ") if hasattr(command, "commands") else {prefix + name: command}
    return found


def described(name: str, command: Any) -> str:
    """The section of one command."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join(["python -m spacy pel", name, *map(placeholder, arguments), *["[OPTIONS]"] * bool(options)])
    text = re.sub(r"^Example: (.*)$", r"Example: `\1`", command.help, flags=re.MULTILINE).replace("*", r"\*")
    rows = [(placeholder(param), described_param(param)) for param in arguments]
    rows += [(", ".join(param.opts), described_param(param)) for param in options]
    table = "\n".join(f"| `{left}` | {right} |" for left, right in rows)
    return f"## {name}\n\n```text\n{usage}\n```\n\n{text}\n\n| | |\n| --- | --- |\n{table}"


def placeholder(argument: Any) -> str:
    """What stands for an argument in the usage of its command."""
    name = argument.metavar or argument.name.upper() + (" …" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def described_param(param: Any) -> str:
    """The help of an argument or option, with its default."""
    has_default = param.default not in (None, False, "", -1) and not param.required
    return param.help.replace("|", r"\|") + (f" [default: {param.default}]" if has_default else "")


def turn_links(markdown: str, page: str, repository: str) -> str:
    """A page, at the path `page` in `docs/`, whose links out of `docs/` lead somewhere on the site."""
    folder = posixpath.join("docs", posixpath.dirname(page))

    def turn(found: re.Match) -> str:
        path, _, heading = found[2].partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        if target.startswith("docs/"):
            return found[0]
        if Path(target).match(FIGURES):
            return f"[{found[1]}]({posixpath.relpath(figure(target), posixpath.dirname(page))})"
        anchor = f"#{heading}" if heading else ""
        return f"[{found[1]}]({repository}/blob/main/{target}{anchor})" if repository else found[1]

    return LINK_OUT.sub(turn, markdown)


def figure(path: str) -> str:
    """Where a figure of a project, `projects/NAME/figures/FILE`, lies on the site."""
    _, project, _, name = path.split("/")
    return f"figures/{project}/{name}"
