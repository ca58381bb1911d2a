"""Texts to link, one a line: JSON objects with a `text`, or plain. A broken line is reported and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from ..errors import PelError
from ..files.json_lines import parse_object
from ..files.json_lines import text as text_of
from ..files.lines import decoded
from ..mentions.given import given_spans
from ..mentions.tokens import check_length, tokenised

# A group that has no spans, only their characters: spaCy does not move the spans of groups where tokens are merged
GIVEN_GROUP = "given_mentions"


class Line(NamedTuple):
    """A line that was read.

    Attributes:
        record: Its JSON object; `{"text": …}` where it is plain.
        end: Bytes of the file up to its end.
    """

    record: dict[str, Any]
    end: int


def read_texts(
    file: Iterable[bytes],
    format: str,
    nlp: Language,
    on_broken: Callable[[int, PelError], object],
    spans_key: str | None = None,
) -> Iterator[tuple[Doc, Line]]:
    """Stream what `nlp.pipe(as_tuples=True)` takes: a tokenised Doc and its line. Blank lines are left out.

    The `ents` of a JSON object, `[{"start": …, "end": …, "label": …}, …]` in characters, are widened to token
    boundaries and put into `doc.spans["given_mentions"]`, for `link_given_mentions`.

    Args:
        file: Lines of bytes.
        format: A key of `PARSERS`.
        nlp: Gives the tokenizer.
        on_broken: Is called with the number of a line and with what is wrong: it is no UTF-8, no JSON object, has no
            text, has a longer one than `nlp.max_length`, or `ents` that are no spans of it or that overlap.
        spans_key: That of the linker; with one, `ents` may overlap.

    Yields:
        A Doc and its line.
    """
    end = 0
    for number, line in enumerate(file, start=1):
        end += len(line)
        if not line.strip():
            continue
        try:
            record = PARSERS[format](line.rstrip(b"\r\n"))
            doc = make_doc(nlp, record, spans_key=spans_key)
        except PelError as error:
            on_broken(number, error)
        else:
            yield doc, Line(record, end)


def link_given_mentions(nlp: Language, linker: str, spans_key: str | None = None) -> None:
    """Make a linker link only the mentions that a Doc came with, if it did, whatever other components have found.

    Args:
        nlp: The pipeline.
        linker: The name of the linker in it.
        spans_key: That of the linker.
    """
    nlp.add_pipe("pel_given_mentions", before=linker, config={"spans_key": spans_key})


@Language.factory("pel_given_mentions", assigns=["doc.ents"])
def make_given_mentions(nlp: Language, name: str, spans_key: str | None = None) -> Callable[[Doc], Doc]:
    """Make a component that moves the mentions a Doc came with, if it did, to `doc.ents` or the group `spans_key`."""
    return partial(_set_given_mentions, spans_key)


def give_mentions(doc: Doc, spans: Iterable[Span], attrs: Mapping[str, Any] | None = None) -> None:
    """Note, by their characters, the mentions that a Doc comes with, for `link_given_mentions`. attrs: of their
    group."""
    places = [(span.start_char, span.end_char, span.label_, span.kb_id_, span.id_) for span in spans]
    doc.spans[GIVEN_GROUP] = SpanGroup(doc, name=GIVEN_GROUP, attrs={"attrs": dict(attrs or {}), "places": places})


def _set_given_mentions(spans_key: str | None, doc: Doc) -> Doc:
    if GIVEN_GROUP in doc.spans:
        given = doc.spans.pop(GIVEN_GROUP).attrs
        spans = [_given(doc, *place) for place in given["places"]]
        if spans_key is None:
            doc.ents = spans
        else:
            doc.spans[spans_key] = SpanGroup(doc, name=spans_key, attrs=given["attrs"], spans=spans)
    return doc


def _given(doc: Doc, start: int, end: int, label: str, kb_id: str, span_id: str) -> Span:
    if start == end:
        place = next((token.i for token in doc if token.idx >= start), len(doc))
        return Span(doc, place, place, label=label, kb_id=kb_id, span_id=span_id)
    span = doc.char_span(start, end, label=label, kb_id=kb_id, span_id=span_id, alignment_mode="expand")
    assert span is not None  # both ends are characters of tokens
    return span


def parse_json(line: bytes, called: str = "text") -> dict[str, Any]:
    """The JSON object on a line. called: the key of the text in it, for errors.

    Raises:
        PelError: There is none.
    """
    return parse_object(line, _shape(called))


def _parse_plain(line: bytes) -> dict[str, Any]:
    return {"text": decoded(line).removeprefix("\ufeff")}


PARSERS: dict[str, Callable[[bytes], dict[str, Any]]] = {"jsonl": parse_json, "txt": _parse_plain}


def make_doc(nlp: Language, record: dict[str, Any], called: str = "text", spans_key: str | None = None) -> Doc:
    """The tokenised text of a record, with its `ents`, if it has any, as `read_texts` puts them.

    Args:
        nlp: Gives the tokenizer.
        record: With a `text`.
        called: The name that the text has where the record comes from, for errors.
        spans_key: As for `read_texts`.

    Raises:
        PelError: It has no text, one that is too long or whose words the tokenizer changes, or `ents` that are no spans
            of it or that overlap.
    """
    if record.get("text") is None:
        raise PelError(f'"{called}" is missing; write {_shape(called)}')
    text = text_of({called: record["text"]}, called)
    check_length(nlp, text)
    doc = tokenised(nlp, text)
    given = record.get("ents")
    if given is None:
        return doc
    spans = given_spans(doc, text, given)
    give_mentions(doc, spans if spans_key is not None else _without_overlap(spans))
    return doc


def _shape(called: str) -> str:
    return f'{{"{called}": …}}'


def _without_overlap(spans: Iterable[Span]) -> list[Span]:
    ordered = sorted(spans, key=lambda span: span.start)
    for one, other in pairwise(ordered):
        if other.start < one.end:
            raise PelError(f'"ents": {one.text!r} and {other.text!r} overlap or share a token; leave one out')
    return ordered
