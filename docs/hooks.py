"""What the site takes from the code and from the rest of the repository while `mkdocs build` runs.

Three comments in a page are replaced:

    <!-- registered spacy_pel.ProxyLoss.v1 -->  a heading, the registry, and the docstring behind that entry point
    <!-- default config -->                     the `[components.pel_linker]` that spaCy writes for a new linker
    <!-- commands -->                           every command with its arguments and options

Links to files outside `docs/` work on GitHub as they stand. On the site a figure of a project is copied beside the
pages, and another link leads to the repository, or, where `repo_url` is not set, becomes plain text.
"""

from __future__ import annotations

import configparser
import posixpath
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
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
    markdown = REGISTERED.sub(lambda found: registered(found[1]), markdown)
    if "<!-- default config -->" in markdown:
        markdown = markdown.replace("<!-- default config -->", f"```ini\n{default_config()}\n```")
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return markdown


def registered(name: str) -> str:
    """The heading, the registry and the mkdocstrings directive of a registered function."""
    registry, target = entry_points()[name]
    return (
        f"### {name}\n\nFor `@{registry}`.\n\n::: {target.replace(':', '.')}\n    options:\n"
        "      members: false\n      show_root_heading: false\n      show_root_toc_entry: false\n"
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


@cache
def commands() -> str:
    """The commands as typer writes them, without its page title."""
    typer = [sys.executable, "-m", "typer", "--app", "pel_app", "spacy_pel.cli"]
    docs = [*typer, "utils", "docs", "--name", "python -m spacy pel"]
    written = subprocess.run(docs, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    examples = re.sub(r"^Example: (.*)$", r"Example: `\1`", written, flags=re.MULTILINE)
    return re.sub(r"^# .*$", "", examples, count=1, flags=re.MULTILINE)


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
