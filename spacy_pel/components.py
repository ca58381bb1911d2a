"""The components of this package in a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from .checks import named
from .errors import PelError


def made_by(nlp: Language, factory: str) -> list[str]:
    """The names of the components that a `factory` has made, in the order of the pipeline."""
    return [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == factory]


def find_linker(nlp: Language, *, needs_kb: bool = True) -> tuple[str, Any]:
    """The name of the `pel_linker` in a pipeline, and the linker.

    Raises:
        PelError: Unless there is exactly one, with a KB if one is needed; or `nlp` is no pipeline.
    """
    if not isinstance(nlp, Language):
        raise PelError(f"{named(nlp)} is no pipeline; give the one that the linker is in, nlp.")
    names = made_by(nlp, "pel_linker")
    if len(names) != 1:
        raise PelError(f"The pipeline must hold one pel_linker, and holds {len(names)} among {nlp.pipe_names}.")
    linker: Any = nlp.get_pipe(names[0])
    if needs_kb:
        linker.require_kb()
    return names[0], linker


def find_ranker(nlp: Language) -> tuple[str, Any] | None:
    """The name of the `pel_ranker` in a pipeline, and the ranker; None if there is none."""
    return next(((name, nlp.get_pipe(name)) for name in made_by(nlp, "pel_ranker")), None)


def require_ranker(nlp: Language, where: str) -> tuple[str, Any]:
    """The name of the `pel_ranker` in the pipeline that was loaded from `where`, and the ranker.

    Raises:
        PelError: There is none.
    """
    if (found := find_ranker(nlp)) is None:
        raise PelError(f"{where} has no pel_ranker: its components are {', '.join(nlp.pipe_names)}")
    return found


def read_upstream(nlp: Language, docs: Iterable[Doc]) -> list[Doc]:
    """`docs`, which the `transformer` pipe of `nlp` has read if its linker listens to one: their states stay with them.
    No other pipe is run."""
    linkers = set(made_by(nlp, "pel_linker"))
    pipe: Any
    for _, pipe in nlp.pipeline:
        if linkers.intersection(getattr(pipe, "listening_components", ())):
            docs = pipe.pipe(docs, batch_size=nlp.batch_size)
    return list(docs)
