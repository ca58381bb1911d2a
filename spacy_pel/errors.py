"""What a user can put right: the one error type, and a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from spacy.tokens import Doc


class PelError(ValueError):
    """Bad input or a missing step. Its message is one sentence that names the file, line, id or config key and says
    what to do; the command line prints it as it is."""


def warn_without_ner(docs: Iterable[Doc], name: str) -> None:
    """Warn, once, where no component has looked for entities in a Doc. One that looked and found none is fine."""
    if any(len(doc) and not doc.has_annotation("ENT_IOB") for doc in docs):
        warnings.warn(
            f"{name} links doc.ents, and no component has looked for entities before it: add an `ner`, an "
            "`entity_ruler` or any other that sets doc.ents, with nlp.add_pipe(..., before=" + repr(name) + ").",
            stacklevel=1,
        )
