"""Why a linker links a mention as it does: what it finds, with and without the filter, and what decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from spacy.tokens import Span

from ..kb.allowed import Allowed
from ..kb.numbering import is_among
from ..search.explanation import Explanation, explain, explain_discarded
from ..search.search import Found
from ..tuning.tuned import evidence_for
from .arguments import check_explained


def explained(linker: Any, span: Span, k: int) -> Explanation:
    """See `PelLinker.explain`."""
    check_explained(span, k)
    if span.label_ in linker.settings.labels_discard:
        return with_kept(linker, span, explain_discarded(span, linker.threshold))
    found = linker.find([span], k)[0]
    allowed = linker.settings.allowed_for(span.label_)
    free = None if allowed is None else _not_allowed(linker, linker.find([span], k, unfiltered=True)[0], allowed)
    (link,) = linker.links([found])
    evidence = evidence_for(found, link, linker.tuned)
    told = explain(span, found, k, link, linker.threshold, linker.require_kb(), free, evidence)
    return with_kept(linker, span, told)


def with_kept(linker: Any, span: Span, told: Explanation) -> Explanation:
    """What is `told`, and whether the linker has kept another id that `span` had."""
    if span.kb_id_ == told.kb_id or not linker.noted.has_kept(span):
        return told
    return replace(told, reason=f"{told.reason}; but it had {span.kb_id_} already, which overwrite = false keeps")


def _not_allowed(linker: Any, found: Found, allowed: Allowed) -> Found:
    """What was found that `allowed` leaves out."""
    kb = linker.require_kb()
    rows = kb.rows(found.ids)
    numbers = np.array([rows.get(id_, -1) for id_ in found.ids], dtype=np.int64)
    return found.only(~is_among(numbers, kb.rows_allowed(allowed)))
