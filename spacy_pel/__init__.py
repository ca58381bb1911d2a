"""Entity linking for spaCy. `import spacy_pel` is never needed: spaCy finds `pel_linker` by its entry point."""

from .about import __version__

__all__ = ["__version__"]
