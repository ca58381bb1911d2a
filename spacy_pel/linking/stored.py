"""Docs of a `.spacy` file, to link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from ..corpora.docbin import read_docs
from ..mentions.links import mentions_of
from .texts import Line, give_mentions


def read_stored(path: Path, nlp: Language, spans_key: str | None = None) -> Iterator[tuple[Doc, Line]]:
    """What `read_texts` yields, of the Docs in a file, all of which are read at once. Entities that are there, or with
    `spans_key` the spans of that group, are the mentions that `link_given_mentions` links.

    Raises:
        PelError: It is no `.spacy` file.
    """
    docs, size = list(read_docs(path, nlp.vocab)), path.stat().st_size
    for number, doc in enumerate(docs, start=1):
        if doc.has_annotation("ENT_IOB") if spans_key is None else spans_key in doc.spans:
            attrs = {} if spans_key is None else doc.spans[spans_key].attrs
            give_mentions(doc, mentions_of(doc, spans_key), attrs)
        yield doc, Line({"text": doc.text}, size * number // len(docs))
