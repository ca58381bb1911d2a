"""A pipeline loaded for a command, and the linker in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..errors import PelError

if TYPE_CHECKING:
    from spacy.language import Language

    from ..linker import PelLinker


def load_linker(pipeline: str, *, needs_kb: bool = True) -> tuple[Language, str, PelLinker]:
    """Load a pipeline and find its linker. RETURNS: the pipeline, the linker's name in it, and the linker.

    RAISES: `PelError` unless there is exactly one `pel_linker`, with a KB if `needs_kb`.
    """
    import spacy

    nlp = spacy.load(pipeline)
    names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "pel_linker"]
    if len(names) != 1:
        raise PelError(f"{pipeline} must hold one pel_linker, and holds {len(names)} among {nlp.pipe_names}")
    name = names[0]
    linker = cast("PelLinker", nlp.get_pipe(name))
    if needs_kb and linker.kb is None:
        raise PelError(f"{name} of {pipeline} has no KB: give it one with `spacy pel index {pipeline} KB OUT`")
    return nlp, name, linker
