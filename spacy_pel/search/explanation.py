"""Why a mention is linked as it is: `PelLinker.explain`. It reads what a search has found and computes nothing anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spacy.tokens import Span

from ..kb.entity import NIL, Entity
from ..kb.names.normal_form import distinct_names
from ..mentions.links import Link
from .parts import EXACT, NAME, NGRAM, SIMILARITY
from .search import Found


class Parts(NamedTuple):
    """What a score is the weighted mean of.

    Attributes:
        similarity: Of the vectors.
        ngram: Of the names, as 3-grams; None where they are not compared.
        exact: 1 for a name that equals the mention, or its singular, shared among the entities that have it; None as
            for `ngram`.
        names: Of the vectors of names, where those of entities are searched too.
        name: Of which name the most similar vector is, where vectors of names are searched.
    """

    similarity: float
    ngram: float | None
    exact: float | None
    names: float | None = None
    name: str | None = None

    def __str__(self) -> str:
        named = "" if self.name is None else f" ({self.name!r})"
        if self.names is None:
            said = [f"similarity {self.similarity:.3f}{named}"]
        else:
            said = [f"similarity {self.similarity:.3f}", f"of names {self.names:.3f}{named}"]
        if self.ngram is not None:
            said.append(f"3-grams {self.ngram:.3f}")
        if self.exact:
            owners = round(1 / self.exact)
            said.append("an exact name" if owners == 1 else f"an exact name of {owners} entities")
        return ", ".join(said)


class ScoredEntity(NamedTuple):
    """A candidate with its name and score; `parts` where names count (see `lexical` and `vectors`), else None."""

    id: str
    name: str
    score: float
    parts: Parts | None = None

    def __str__(self) -> str:
        parts = "" if self.parts is None else f"  ({self.parts})"
        return f"{self.score:7.3f}  {self.id}  {self.name}{parts}"


class RankedEntity(NamedTuple):
    """A candidate of a linker that a ranker has ranked anew, with its name.

    Attributes:
        id: Its id.
        name: Its name.
        score: By the linker.
        by_ranker: By the ranker; None behind the first `top_n`.
    """

    id: str
    name: str
    score: float
    by_ranker: float | None = None

    def __str__(self) -> str:
        anew = "not ranked" if self.by_ranker is None else f"{self.by_ranker:.3f} by the ranker"
        return f"{self.score:7.3f}  {self.id}  {self.name}  ({anew})"


@dataclass(frozen=True)
class Explanation:
    """What a linker makes of a mention, and why.

    Attributes:
        mention: Its text.
        kb_id: An id, or "NIL".
        reason: A sentence.
        candidates: The best ones, best first; `RankedEntity` where a ranker has ranked them anew.
        filtered: Those that would stand among them if the linker allowed all types, and entities without codes.
        threshold: The NIL threshold in force, or None.
        probability: That the best candidate is right; None before `spacy pel tune-nil`.
        long_form: What was read in place of the mention, its long form or its other name, or None.
        confidence: The probability that the KB has the entity, which the threshold is held against; None where that is
            the best score.
        evidence: What says most for and against that, by name, and how much, in log-odds beside a mention like all
            others; empty without a confidence.
    """

    mention: str
    kb_id: str
    reason: str
    candidates: Sequence[ScoredEntity | RankedEntity]
    filtered: list[ScoredEntity]
    threshold: float | None
    probability: float | None
    long_form: str | None = None
    confidence: float | None = None
    evidence: list[tuple[str, float]] = field(default_factory=list)

    def __str__(self) -> str:
        what = "its best candidate is right" if self.kb_id == NIL else "right"
        chance = "" if self.probability is None else f" ({what} with probability {self.probability:.2f})"
        read = "" if self.long_form is None else f" (read as {self.long_form!r})"
        lines = [f"{self.mention}{read} → {self.kb_id}: {self.reason}{chance}"]
        if self.evidence:
            said = ", ".join(f"{name} {share:+.2f}" for name, share in self.evidence)
            lines.append(f"  most evidence, in log-odds: {said}")
        lines += [f"  {one}" for one in self.candidates]
        lines += [f"  {one}  (the settings do not allow it)" for one in self.filtered]
        return "\n".join(lines)


def explain_discarded(span: Span, threshold: float | None) -> Explanation:
    """Explain a mention that is NIL for its label."""
    reason = f'the label "{span.label_}" is in labels_discard'
    return Explanation(span.text, NIL, reason, [], [], threshold, None)


def explain(
    span: Span,
    found: Found,
    k: int,
    link: Link,
    threshold: float | None,
    entities: Mapping[str, Entity],
    free: Found | None = None,
    evidence: Sequence[tuple[str, float]] = (),
) -> Explanation:
    """Explain the link of a mention.

    Args:
        span: The mention.
        found: Its candidates, at most `k`.
        link: What was made of them under `threshold`.
        threshold: That of NIL; None: nothing is NIL.
        entities: The KB.
        free: Those of its candidates, if all entities were allowed, that the settings leave out; None: they leave out
            none.
        evidence: As in `Explanation`.
    """
    candidates = list(_entities(found, entities))
    filtered: list[ScoredEntity] = []
    if free is not None:
        worst = candidates[-1].score if len(candidates) == k else float("-inf")
        filtered = [one for one in _entities(free, entities) if one.id not in found.ids and one.score >= worst]
    return Explanation(
        span.text,
        link.kb_id,
        _reason(link, candidates, filtered, threshold),
        candidates,
        filtered,
        threshold,
        link.probability,
        None if found.read is span else found.read.text,
        link.confidence,
        list(evidence),
    )


def _entities(found: Found, entities: Mapping[str, Entity]) -> Iterator[ScoredEntity]:
    has_parts = found.parts.keys() - {SIMILARITY}
    for i, (id_, score) in enumerate(found.ranked):
        entity = entities[id_]
        yield ScoredEntity(id_, entity.name, score, _parts(found, i, entity) if has_parts else None)


def _parts(found: Found, i: int, entity: Entity) -> Parts:
    values: dict[str, Any] = dict.fromkeys((NGRAM, EXACT))
    values |= {part: own[i].item() for part, own in found.parts.items()}
    if NAME in values:
        names = dict(enumerate(distinct_names(entity.name, entity.aliases)))
        values[NAME] = names.get(values[NAME])  # an older spacy-pel counted blank names too
    return Parts(**values)


def held_against(link: Link, what: str, value: float, threshold: float) -> str:
    """How the `value` that decides on NIL compares with its threshold. what: what it is."""
    relation = "is under" if link.kb_id == NIL else "reaches"
    return f"{what}, {value:.3f}, {relation} the NIL threshold of {threshold:.3f}"


def _reason(link: Link, candidates: list[ScoredEntity], filtered: list[ScoredEntity], threshold: float | None) -> str:
    if not candidates:
        return "it has no candidate: no word piece, or no entity that the settings allow"
    if threshold is None:
        return "there is no NIL threshold, so the best candidate is taken"
    if link.confidence is not None:
        return held_against(link, "the probability that the KB has it", link.confidence, threshold)
    reason = held_against(link, "the best score", candidates[0].score, threshold)
    if link.kb_id == NIL and filtered and filtered[0].score >= threshold:
        reason += f"; {filtered[0].id} would reach it, with {filtered[0].score:.3f}, but the settings do not allow it"
    return reason
