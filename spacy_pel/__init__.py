"""Entity linking for spaCy. `import spacy_pel` is never needed to link: spaCy finds `pel_linker` by its entry point."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .about import __version__

if TYPE_CHECKING:
    from .reports.visual import render_links

__all__ = ["__version__", "render_links"]

HOMES = {"render_links": "reports.visual"}  # imported when they are asked for


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES[name]}", __name__), name)
