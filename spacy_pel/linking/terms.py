"""Terms without documents: each is linked as a mention that is all of its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from ..components import find_ranker
from ..errors import PelError
from ..mentions.links import Link, links_of
from ..mentions.offsets import expanded_span
from ..mentions.tokens import check_length, tokenised
from .batches import piped


def link_terms(
    nlp: Language, name: str, linker: Any, terms: Iterable[str], *, batch_size: int = 256
) -> Iterator[tuple[str, Link]]:
    """Link terms. Of the pipeline, the linker runs, a `transformer` pipe that it listens to, and a ranker behind it.

    Args:
        nlp: The pipeline.
        name: Of the linker.
        linker: With its KB.
        terms: Texts with something else than white space.
        batch_size: How many are linked together.

    Yields:
        Each with its link, in their order.

    Raises:
        PelError: A term is longer than `nlp.max_length`.
    """
    key = linker.spans_key
    docs = ((_as_mention(nlp, term, key), term) for term in terms)
    with nlp.select_pipes(enable=_needed(nlp, name)):
        for doc, term in piped(nlp, docs, batch_size):
            (link,) = links_of(doc, key)
            yield term, link


def _as_mention(nlp: Language, term: str, spans_key: str | None) -> Doc:
    try:
        check_length(nlp, term)
    except PelError as error:
        raise PelError(f'the term "{term[:40]}…": {error}') from error
    doc = tokenised(nlp, term)
    spans = [expanded_span(doc, term, 0, len(term), label="")]
    if spans_key is None:
        doc.ents = spans
    else:
        doc.spans[spans_key] = spans
    return doc


def _needed(nlp: Language, linker: str) -> list[str]:
    listened = [name for name, pipe in nlp.pipeline if linker in getattr(pipe, "listening_components", ())]
    ranker = find_ranker(nlp)
    return [*listened, linker, *([ranker[0]] if ranker else [])]
