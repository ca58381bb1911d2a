"""The names of a KB before its own linker, as mentions: what is tuned to where nobody has annotated a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc

from ..corpora.drawn_names import DrawnName, draw_names
from ..kb.entity import Entity
from ..kb.kinds import ENTITY, NAMES
from ..kb.knowledge_base import KnowledgeBase
from ..kb.names.normal_form import distinct_names, normalized
from ..kb.numbering import EntityRows, both_ways
from ..kb.several import Vectors
from ..mentions.gold import GoldMention
from ..models.encoding import UNREADABLE, encode_entities, encode_names, encode_spans, similarities
from ..search import parts
from ..tuning.held_out import without_entities, without_name, without_same_concepts
from ..tuning.name_weights import GoldFound
from .finding import CanFind, find_for

N_NAMES = 1500
NIL_SHARE = 0.2  # of the names: their entities are held out
KEPT_SHARE = 0.5  # of the others: what share of the mentions in texts are names that the KB has


class _HeldOut(NamedTuple):
    """An entity without one of its names.

    Attributes:
        number: Of the mention that is this name.
        entity: Without it.
        names: The distinct names that are left.
    """

    number: int
    entity: Entity
    names: list[str]


def find_for_names(
    linker: CanFind, *, texts: Iterable[Doc] = (), seed: int = 0, n: int = N_NAMES, progress: bool = False
) -> list[GoldFound]:
    """Names of the KB as mentions, and what is found for each.

    A fifth of them are NIL: what they may mean is taken from what was found. Half of the others are held out: their
    entities are scored without this name, in their texts, in their vectors and among their names. The other half are
    found by the name itself. Entities that the KB marks as the same concept as one that a name may mean are no
    candidates of it.

    Args:
        linker: With its KB.
        texts: Unannotated Docs to place the names into; without any they stand alone.
        seed: Of the draw.
        n: How many names.
        progress: Whether to show a bar.

    Raises:
        PelError: The linker reads no names.
    """
    linker.model.attrs["row_settings"].check_reads_names()
    kb, rng = linker.kb, np.random.default_rng(seed)
    allowed = linker.settings.allowed_for("")
    rows = None if allowed is None else kb.rows_allowed(allowed)
    drawn = list(draw_names(kb, n, rng, vocab=linker.vocab, rows=rows, texts=texts))
    mentions = [GoldMention(one.span, tuple(owner.id for owner in one.owners)) for one in drawn]
    # One candidate deeper: the entity that is held out has the place of one that would be found without it
    found = find_for(linker, mentions, resolve_abbreviations=False, deeper=1, progress=progress)
    is_nil, is_kept = rng.random(len(drawn)) < NIL_SHARE, rng.random(len(drawn)) < KEPT_SHARE
    lost = [i for i in range(len(drawn)) if not is_nil[i] and not is_kept[i]]
    new = _parts_without(linker, drawn, lost)
    depth = linker.settings.top_k
    same = _same_concepts(kb, {id_ for mention in mentions for id_ in mention.ids})
    for i, one in enumerate(found):
        if i in new:
            one = one._replace(found=without_name(one.found, new[i], depth))
        one = without_same_concepts(one, same)
        found[i] = without_entities(one) if is_nil[i] else one
    return found


def _same_concepts(kb: KnowledgeBase, ids: Iterable[str]) -> dict[str, list[str]]:
    """For those of `ids` that the KB marks as the same concept as others, the ids of these."""
    same = both_ways(kb.same_concepts())
    rows = {id_: row for id_, row in kb.rows(ids).items() if row in same}
    return {id_: kb.ids(EntityRows(np.array(same[row]))).tolist() for id_, row in rows.items()}


def _parts_without(
    linker: CanFind, drawn: Sequence[DrawnName], numbers: Sequence[int]
) -> dict[int, dict[str, dict[str, float]]]:
    """For each of these names, by its number and the ids of its owners, what their scores are made of without it.
    Names of entities that have no other are left out."""
    held_out = list(_held_out(drawn, numbers))
    spans = [drawn[one.number].span for one in held_out]
    vectors, places = encode_spans(linker.model, spans)
    new: dict[int, dict[str, dict[str, float]]] = {}
    similar = _similarities(linker, held_out, vectors, places)
    for i, one in enumerate(held_out):
        if places[i] == UNREADABLE:
            continue
        alike = linker.kb.names.match(spans[i].text).similarities(list(map(normalized, one.names)))
        own = {part: float(values[i]) for part, values in similar.items()}
        new.setdefault(one.number, {})[one.entity.id] = own | {parts.NGRAM: float(alike.max())}
    return new


def _held_out(drawn: Sequence[DrawnName], numbers: Sequence[int]) -> Iterator[_HeldOut]:
    for number in numbers:
        span, owners = drawn[number]
        form = normalized(span.text)
        left = [[name for name in (one.name, *one.aliases) if normalized(name) != form] for one in owners]
        if all(left):
            for owner, names in zip(owners, left, strict=True):
                entity = replace(owner, name=names[0], aliases=tuple(names[1:]))
                yield _HeldOut(number, entity, distinct_names(entity.name, entity.aliases))


def _similarities(
    linker: CanFind, held_out: Sequence[_HeldOut], vectors: Vectors, places: np.ndarray
) -> dict[str, np.ndarray]:
    """Of each name, and of its entity without it, the similarities (n,) by the parts that they are."""
    if not held_out:
        return {}
    queries = vectors[places]  # an unreadable one has any, which nobody looks at
    own: dict[str, np.ndarray] = {}
    if ENTITY in linker.fingerprints:
        entities = encode_entities(linker.model, [one.entity for one in held_out])
        own[parts.SIMILARITY] = similarities(linker.model, queries, entities)
    if NAMES in linker.fingerprints:
        counts = np.array([len(one.names) for one in held_out])
        names = encode_names(linker.model, list(chain.from_iterable(one.names for one in held_out)))
        each = similarities(linker.model, queries[np.repeat(np.arange(len(counts)), counts)], names)
        best = np.maximum.reduceat(each, np.cumsum(counts) - counts)
        own[parts.NAMES if ENTITY in linker.fingerprints else parts.SIMILARITY] = best
    return own
