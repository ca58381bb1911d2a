"""Why a ranker links a mention as it does."""

from __future__ import annotations

from typing import Any

import numpy as np
from spacy.tokens import Span

from ..kb.entity import NIL
from ..mentions.links import Link
from ..search.explanation import Explanation, RankedEntity, held_against
from ..tuning.decision import strongest
from ..tuning.ranking import RANKED, decided, in_order, is_doubtful
from .arguments import check_explained
from .explaining import with_kept
from .ranking import doubted_below, scores_of


def explained(ranker: Any, span: Span, k: int) -> Explanation:
    """See `PelRanker.explain`."""
    check_explained(span, k, by="ranker")
    linker = ranker.require_linker()
    by_linker = linker.explain(span, k)
    (before,) = linker.links(linker.find([span], max(k, ranker.settings.top_n)))
    if not by_linker.candidates or not is_doubtful(before, doubted_below(ranker)):
        return by_linker
    scores = scores_of(ranker, [span], [before])
    made, evidence = in_order([before], scores, ranker.tuned.weight)
    (link,) = decided(made, evidence, ranker.in_force)
    fitted = ranker.in_force.in_kb
    own = dict(zip((id_ for id_, _ in before.candidates), scores[0].tolist(), strict=False))
    told = Explanation(
        span.text,
        link.kb_id,
        _reason(link, before, ranker),
        [RankedEntity(id_, linker.kb[id_].name, score, own.get(id_)) for id_, score in link.candidates[:k]],
        by_linker.filtered,
        ranker.threshold,
        link.probability,
        by_linker.long_form,
        None if fitted is None else link.confidence,
        [] if fitted is None else strongest(fitted, np.asarray(evidence[0]), columns=RANKED),
    )
    return with_kept(linker, span, told)


def _reason(link: Link, before: Link, ranker: Any) -> str:
    first, second = before.candidates[0][0], link.candidates[0][0]
    order = "the ranker and the linker have the same first" if first == second else f"the linker's first was {first}"
    tuned = ranker.in_force
    if tuned.in_kb is None or tuned.nil_threshold is None or link.confidence is None:
        return f"{order}, and the linker calls it NIL" if before.kb_id == NIL else order
    held = held_against(link, "the probability that the KB has it", link.confidence, tuned.nil_threshold)
    return f"{order}; {held}"
