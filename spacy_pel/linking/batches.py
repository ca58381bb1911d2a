"""Docs through a pipeline in batches, in memory that does not grow with the input."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TypeVar

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError

Context = TypeVar("Context")
ZONE = 10  # batches, after which spaCy forgets the words that it met in them


def piped(
    nlp: Language, texts: Iterator[tuple[Doc, Context]], batch_size: int, n_process: int = 1
) -> Iterator[tuple[Doc, Context]]:
    """The texts through the pipeline, each with what it came with. A Doc lives until the next is asked for: what it
    adds to the vocabulary goes, so that this does not grow with the input. With more processes than one, each of which
    has the pipeline, it does here.

    Raises:
        PelError: What a process has raised.
    """
    if n_process > 1:
        try:
            yield from nlp.pipe(texts, as_tuples=True, batch_size=batch_size, n_process=n_process)
        except PelError:
            raise
        except ValueError as error:  # spaCy's E871, with the whole traceback
            last = str(error).strip().splitlines()[-1]
            own = last.removeprefix(f"{PelError.__module__}.{PelError.__qualname__}: ")
            raise PelError(own if own != last else f"A process has failed: {last}") from error
        return
    while True:
        with nlp.memory_zone():
            first = next(texts, None)
            if first is None:
                return
            zone = chain([first], islice(texts, ZONE * batch_size - 1))
            yield from nlp.pipe(zone, as_tuples=True, batch_size=batch_size)
