"""The spans that a linker links, and where it writes what it found: `doc.ents`, or a group of `doc.spans`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

from .extensions import extension

RankedIds = list[tuple[str, float]]
WRITTEN = ("kb_ents", "kb_prob", "kb_read")  # extensions of spans, and attributes of a group


class Link(NamedTuple):
    """What one mention is linked to.

    Attributes:
        kb_id: An id or "NIL".
        candidates: The best `(id, score)`, best first.
        probability: That the first candidate is right; None before the linker is calibrated.
        confidence: What a NIL threshold is held against; None for the score of the first candidate.
        read: The text that was read: the mention, its long form or its other name; None where nothing was found.
    """

    kb_id: str
    candidates: RankedIds
    probability: float | None = None
    confidence: float | None = None
    read: str | None = None


def top_score(candidates: Sequence[tuple[str, float]]) -> float:
    """Return what the NIL threshold is held against; -inf without a candidate, so any threshold gives NIL."""
    return candidates[0][1] if candidates else -math.inf


def mentions_of(doc: Doc, spans_key: str | None) -> list[Span]:
    """Return the entities of `doc`, or with `spans_key` the spans of that group, of which there may be none."""
    return list(doc.ents if spans_key is None else doc.spans.get(spans_key, ()))


def links_of(doc: Doc, spans_key: str | None) -> list[Link]:
    """Return what `write_links` has written for each of `mentions_of(doc, spans_key)`."""
    spans = mentions_of(doc, spans_key)
    attrs: dict[str, Any] = {} if spans_key is None or not spans else doc.spans[spans_key].attrs
    said = [_values_of(spans, name, attrs.get(name)) for name in WRITTEN]
    return [
        Link(span.kb_id_, candidates, probability, None, read)
        for span, candidates, probability, read in zip(spans, *said, strict=True)
    ]


def _values_of(spans: Sequence[Span], name: str, of_group: Any) -> Sequence[Any]:
    """The values of the extension `name` of `spans`, or those that their group has of them."""
    if isinstance(of_group, list | tuple) and len(of_group) == len(spans):
        return of_group
    return [span._.get(extension(name)) for span in spans]  # the group has none, or those of other spans


def write_links(doc: Doc, links: Sequence[Link], spans_key: str | None, *, overwrite: bool) -> None:
    """Write a link for each of `mentions_of(doc, spans_key)`; those that have an id keep it without `overwrite`."""
    if spans_key is None:
        for ent, link in zip(doc.ents, links, strict=True):
            if overwrite or not ent.kb_id:
                for token in ent:
                    token.ent_kb_id_ = link.kb_id
                _set(ent, link)
    elif spans_key in doc.spans:
        _write_group(doc, links, spans_key, overwrite)


def _set(span: Span, link: Link) -> None:
    for name, value in zip(WRITTEN, _written(link), strict=True):
        span._.set(extension(name), value)


def _written(link: Link) -> tuple[RankedIds, float | None, str | None]:
    """What is written of a link: the values of `WRITTEN`."""
    return link.candidates, link.probability, link.read


def _write_group(doc: Doc, links: Sequence[Link], spans_key: str, overwrite: bool) -> None:
    """Put new spans in the place of the group's. Extension values belong to offsets, so that spans with the same ones
    share them; the `attrs` of the group, such as `attrs["kb_ents"]`, have those of each."""
    group = doc.spans[spans_key]
    links = [
        link if overwrite or not before.kb_id else before
        for link, before in zip(links, links_of(doc, spans_key), strict=True)
    ]
    spans = [
        Span(doc, span.start, span.end, label=span.label, kb_id=link.kb_id, span_id=span.id)
        for span, link in zip(group, links, strict=True)
    ]
    for span, link in zip(spans, links, strict=True):
        _set(span, link)
    columns = zip(*map(_written, links), strict=True) if links else ((),) * len(WRITTEN)
    found = dict(zip(WRITTEN, map(list, columns), strict=True))
    doc.spans[spans_key] = SpanGroup(doc, name=group.name, attrs=group.attrs | found, spans=spans)


def warn_without_mentions(docs: Iterable[Doc], name: str, spans_key: str | None) -> None:
    """Warn, once, if no component has looked for mentions in a Doc. One that looked and found none is fine."""
    if spans_key is None:
        if any(len(doc) and not doc.has_annotation("ENT_IOB") for doc in docs):
            warnings.warn(
                f"{name} links doc.ents, and no component has looked for entities before it: add an `ner`, a "
                f"`pel_finder` or any other that sets doc.ents, with nlp.add_pipe(..., before={name!r}).",
                stacklevel=1,
            )
    elif without := next((doc for doc in docs if spans_key not in doc.spans), None):
        there = ", ".join(map(repr, without.spans)) or "none"
        warnings.warn(
            f"{name} links doc.spans[{spans_key!r}] ([components.{name}] spans_key), and a Doc has no such group (its "
            f"groups: {there}): add a component that sets it before {name!r}, or correct the key.",
            stacklevel=1,
        )
