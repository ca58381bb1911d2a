"""Why a linker links a mention as it does: what it finds, with and without the filter, and what decides."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Span

from ..search.explanation import Explanation, explain, explain_discarded
from ..tuning.tuned import evidence_for
from .arguments import check_explained


def explained(linker: Any, span: Span, k: int) -> Explanation:
    """See `PelLinker.explain`."""
    check_explained(span, k)
    if span.label_ in linker.settings.labels_discard:
        return explain_discarded(span, linker.threshold)
    found = linker.find([span], k)[0]
    has_filter = linker.settings.allowed_for(span.label_) is not None
    free = linker.find([span], k, unfiltered=True)[0] if has_filter else None
    (link,) = linker.links([found])
    evidence = evidence_for(found, link, linker.tuned)
    return explain(span, found, k, link, linker.threshold, linker.require_kb(), free, evidence)
