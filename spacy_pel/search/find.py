"""Spans in, their candidates out: the one place where mentions are read, searched and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span
from thinc.api import Model

from ..errors import PelError
from ..kb.allowed import Allowed
from ..kb.knowledge_base import KnowledgeBase
from ..mentions.abbreviations import LongForms, long_forms
from ..mentions.other_names import OtherNames, other_names
from ..models.encoding import UNREADABLE, encode_spans
from .evidence import evidence
from .search import Found, Queries, Scored, Search

AllowedFor = Callable[[str], Allowed | None]
Named = tuple[list[str], np.ndarray, dict[str, np.ndarray]]  # ids, scores and their parts
TRIES = 5  # to search a KB that changes all the time


class Reading(NamedTuple):
    """How mentions are read and searched.

    Attributes:
        depth: How deep the KB is searched.
        keep: How many candidates of each span are kept; None for all that were found. Where it is more than `depth`,
            others of a search as deep stand behind the best.
        allowed_for: From the label of a span to what its entity must have; None: any will do.
        resolve_abbreviations: Whether an abbreviation is read by its long form.
        linked_in: The mentions of a Doc, among which another name of one may stand, as it may among those that are
            searched; None: other names are not read.
        lang: The code of the language of Docs that say none.
    """

    depth: int
    keep: int | None
    allowed_for: AllowedFor
    resolve_abbreviations: bool
    linked_in: Callable[[Doc], Sequence[Span]] | None = None
    lang: str = ""


def find(model: Model, kb: KnowledgeBase, search: Search, spans: Sequence[Span], reading: Reading) -> list[Found]:
    """The candidates of every span; of one without any word piece none. A span that the text defines as an abbreviation
    is read by its long form: that says what it means there, whatever else the KB has under the short one. One that has
    another name in brackets (see `other_names`) is read by both, and what scores higher counts."""
    read, named = _readings(spans, reading)
    wanted = [reading.allowed_for(span.label_) for span in (*spans, *(spans[i] for i in named))]
    found = _find(model, kb, search, read, wanted, reading)
    for i, by_other in zip(named, found[len(spans) :], strict=True):
        if by_other.top_score > found[i].top_score:
            found[i] = by_other
    return found[: len(spans)]


def reread(spans: Sequence[Span], texts: Sequence[str | None], reading: Reading) -> list[Span]:
    """What `find` has read of each of `spans`, if that text is one of those that it reads there; else what `as_read`
    gives. Texts hold where the tokens of a Doc have changed meanwhile."""
    read, named = _readings(spans, reading)
    for i, other in zip(named, read[len(spans) :], strict=True):
        if texts[i] == other.text != read[i].text:
            read[i] = other
    return read[: len(spans)]


def _readings(spans: Sequence[Span], reading: Reading) -> tuple[list[Span], list[int]]:
    """What is read of each of `spans`, then of the other names of those that have one; and the places of these."""
    others = list(_other_names_of(spans, reading.linked_in))
    read = as_read([*spans, *(other for _, other in others)], reading.resolve_abbreviations)
    return read, [i for i, _ in others]


def _other_names_of(
    spans: Sequence[Span], linked_in: Callable[[Doc], Sequence[Span]] | None
) -> Iterator[tuple[int, Span]]:
    """The other names of those `spans` that have one, with their places."""
    if linked_in is None:
        return
    own: dict[int, list[Span]] = {}
    for span in spans:
        own.setdefault(id(span.doc), []).append(span)
    known: dict[int, OtherNames] = {
        doc: other_names([*linked_in(mentions[0].doc), *mentions]) for doc, mentions in own.items()
    }
    for i, span in enumerate(spans):
        if (other := known[id(span.doc)].get((span.text, span.label_))) is not None:
            yield i, other


def as_read(spans: Sequence[Span], resolve_abbreviations: bool) -> list[Span]:
    """What is read of each of `spans`: itself, or its long form where that is wanted and there is one."""
    read = list(spans)
    if resolve_abbreviations:
        for i, long in _long_forms_of(spans):
            read[i] = long
    return read


def _long_forms_of(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """The long forms of those `spans` that are abbreviations, with their places. One that is no longer than its span is
    there by mistake."""
    known: dict[int, LongForms] = {}
    for i, span in enumerate(spans):
        if id(span.doc) not in known:
            known[id(span.doc)] = long_forms(span.doc)
        long = known[id(span.doc)].get((span.start, span.end))
        if long is not None and len(long.text) > len(span.text):
            yield i, long


def _find(
    model: Model,
    kb: KnowledgeBase,
    search: Search,
    spans: Sequence[Span],
    wanted: Sequence[Allowed | None],
    reading: Reading,
) -> list[Found]:
    found = [Found([], np.empty(0, dtype=np.float32), {}, span) for span in spans]
    vectors, places = encode_spans(model, spans)
    place_of = places.tolist()
    together = [(own, span.doc.lang_ or reading.lang) for own, span in zip(wanted, spans, strict=True)]
    for allowed, lang in dict.fromkeys(together):
        numbers = [i for i, own in enumerate(together) if own == (allowed, lang) and place_of[i] != UNREADABLE]
        if not numbers:
            continue
        text_of = {place_of[i]: spans[i].text for i in numbers}
        queries = Queries(list(text_of.values()), vectors[np.array(list(text_of))], lang)
        said, named = _searched(kb, search, queries, reading.depth, allowed, reading.keep)
        if reading.keep is not None and reading.keep > reading.depth:
            _, deeper = _searched(kb, search, queries, reading.keep, allowed, reading.keep)
            named = [_followed(*both, reading.keep) for both in zip(named, deeper, strict=True)]
        number_of = {place: number for number, place in enumerate(text_of)}
        for i in numbers:
            number = number_of[place_of[i]]
            ids, scores, parts = named[number]
            found[i] = Found(ids, scores, parts, spans[i], said[number])
    return found


def _searched(
    kb: KnowledgeBase, search: Search, queries: Queries, depth: int, allowed: Allowed | None, keep: int | None
) -> tuple[np.ndarray, list[Named]]:
    """What is said of each query, and its candidates, all of one moment of the KB: where that has changed meanwhile,
    the search begins anew."""
    depth = min(depth, max(len(kb), 1))
    for tries_left in reversed(range(TRIES)):
        before = kb.moment
        try:
            within = None if allowed is None else kb.rows_allowed(allowed)
            scored = search(queries, depth, within)
            said = evidence(scored, queries.texts)
            named = list(_named(kb, scored.first(keep)))
        except (IndexError, PelError):  # of rows that a compaction has numbered anew, perhaps
            if kb.moment is before or not tries_left:
                raise
        else:
            if kb.moment is before:
                break
    return said, named


def _followed(found: Named, deeper: Named, k: int) -> Named:
    """The candidates that were `found`, and behind them others of a `deeper` search, `k` in all."""
    ids, scores, parts = found
    known = set(ids)
    others = [i for i, id_ in enumerate(deeper[0]) if id_ not in known][: max(k - len(ids), 0)]
    return (
        ids + [deeper[0][i] for i in others],
        np.concatenate([scores, deeper[1][others]]),
        {name: np.concatenate([own, deeper[2][name][others]]) for name, own in parts.items()},
    )


def _named(kb: KnowledgeBase, scored: Scored) -> Iterator[Named]:
    """Of each query the ids, the scores and their parts; an entity that has been removed meanwhile is left out."""
    ids = kb.ids(scored.rows)
    if not (there := ids != "").all():
        scored, ids = scored.only(there), ids[there]
    known = ids.tolist()
    for start, count in zip(scored.starts.tolist(), scored.counts.tolist(), strict=True):
        own = slice(start, start + count)
        yield known[own], scored.scores[own], {name: values[own] for name, values in scored.parts.items()}
