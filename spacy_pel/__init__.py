"""Entity linking for spaCy. `import spacy_pel` is never needed to link: spaCy finds `pel_linker` by its entry point."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .about import __version__

if TYPE_CHECKING:
    from .evaluation.evaluate import evaluate
    from .kb.entity import Entity
    from .kb.knowledge_base import KnowledgeBase
    from .pipeline.linker import PelLinker
    from .reports.visual import render_links

__all__ = ["Entity", "KnowledgeBase", "PelLinker", "__version__", "evaluate", "render_links"]

_HOMES = {  # imported when they are asked for
    "Entity": "kb.entity",
    "KnowledgeBase": "kb.knowledge_base",
    "PelLinker": "pipeline.linker",
    "evaluate": "evaluation.evaluate",
    "render_links": "reports.visual",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
