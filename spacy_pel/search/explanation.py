"""Why a mention is linked as it is: `PelLinker.explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Span

from ..errors import PelError
from ..kb.entity import NIL
from ..kb.numbering import EntityRows

if TYPE_CHECKING:
    from ..pipeline.linker import PelLinker


class Parts(NamedTuple):
    """What a score is the weighted mean of: the similarity of the vectors, that of the names as 3-grams, and for a name
    that equals the mention 1, shared among the entities that have it."""

    similarity: float
    ngram: float
    exact: float

    def __str__(self) -> str:
        owners = round(1 / self.exact) if self.exact else 0
        exact = "" if not owners else ", an exact name" if owners == 1 else f", an exact name of {owners} entities"
        return f"similarity {self.similarity:.3f}, 3-grams {self.ngram:.3f}{exact}"


class ScoredEntity(NamedTuple):
    """A candidate, with its name and score; `parts` where names count (see `PelLinker.lexical`), else None."""

    id: str
    name: str
    score: float
    parts: Parts | None = None

    def __str__(self) -> str:
        parts = "" if self.parts is None else f"  ({self.parts})"
        return f"{self.score:7.3f}  {self.id}  {self.name}{parts}"


@dataclass(frozen=True)
class Explanation:
    """What a linker makes of a mention, and why.

    kb_id: an id, or "NIL". reason: a sentence. candidates: the best ones, best first. filtered: those that would stand
    among them if the linker allowed all types. threshold: the NIL threshold in force, or None. probability: that the
    best candidate is right, or None before `spacy pel tune-nil`. long_form: what was read in place of an abbreviation,
    or None.
    """

    mention: str
    kb_id: str
    reason: str
    candidates: list[ScoredEntity]
    filtered: list[ScoredEntity]
    threshold: float | None
    probability: float | None
    long_form: str | None = None

    def __str__(self) -> str:
        what = "its best candidate is right" if self.kb_id == NIL else "right"
        chance = "" if self.probability is None else f" ({what} with probability {self.probability:.2f})"
        read = "" if self.long_form is None else f" (read as {self.long_form!r})"
        lines = [f"{self.mention}{read} → {self.kb_id}: {self.reason}{chance}"]
        lines += [f"  {one}" for one in self.candidates]
        lines += [f"  {one}  (its types are not allowed)" for one in self.filtered]
        return "\n".join(lines)


def explain(linker: PelLinker, span: Span, k: int) -> Explanation:
    """See `PelLinker.explain`."""
    if span.label_ in linker.labels_discard:
        reason = f'the label "{span.label_}" is in labels_discard'
        return Explanation(span.text, NIL, reason, [], [], linker.threshold, None)
    if k < 1:
        raise PelError(f"k = {k}: ask for at least one candidate.")
    found, read = linker.rank_forms([span], k)[0]
    link = linker.link(found)
    filtered: list[tuple[str, float]] = []
    read_freely = read
    if linker.types_for(span.label_) is not None:
        kept, worst = {id_ for id_, _ in found}, found[-1][1] if len(found) == k else float("-inf")
        free, read_freely = linker.rank_forms([span], k, all_types=True)[0]
        filtered = [(id_, score) for id_, score in free if id_ not in kept and score >= worst]
    return Explanation(
        span.text,
        link.kb_id,
        _reason(link.kb_id, found, filtered, linker.threshold),
        _named(linker, read, found),
        _named(linker, read_freely, filtered),
        linker.threshold,
        link.probability,
        None if read is span else read.text,
    )


def _reason(
    kb_id: str, found: list[tuple[str, float]], filtered: list[tuple[str, float]], threshold: float | None
) -> str:
    if not found:
        return "it has no candidate: no word piece, or no entity of the types that are allowed"
    if threshold is None:
        return "there is no NIL threshold, so the best candidate is taken"
    relation = "is under" if kb_id == NIL else "reaches"
    reason = f"the best score, {found[0][1]:.3f}, {relation} the NIL threshold of {threshold:.3f}"
    if kb_id == NIL and filtered and filtered[0][1] >= threshold:
        reason += f"; {filtered[0][0]} would reach it, with {filtered[0][1]:.3f}, but its types are not allowed"
    return reason


def _named(linker: PelLinker, read: Span, found: list[tuple[str, float]]) -> list[ScoredEntity]:
    assert linker.kb is not None  # it has been searched
    parts = _parts(linker, read, [id_ for id_, _ in found])
    return [ScoredEntity(id_, linker.kb[id_].name, score, parts.get(id_)) for id_, score in found]


def _parts(linker: PelLinker, read: Span, ids: list[str]) -> dict[str, Parts]:
    from .candidates import encode_distinct

    if linker.lexical_weights is None or not ids:
        return {}
    kb = linker.searchable_kb()
    query = encode_distinct(linker.model, [read])[0][0]
    index = kb.entity_index(linker.fingerprint)
    rows, similarity = index.similarities(query, EntityRows(np.array(sorted(kb.rows(ids).values()))))
    values = np.column_stack([similarity, kb.names.match(read.text).scores(rows)]).tolist()
    return {id_: Parts(*own) for id_, own in zip(kb.ids(rows).tolist(), values, strict=True)}
