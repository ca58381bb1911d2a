"""What a linker keeps on a span besides its `kb_id_`: `span._.kb_ents`, `span._.kb_prob` and `span._.is_nil`."""

from __future__ import annotations

from spacy.tokens import Span

from .corpora.gold import NIL


def set_extensions() -> None:
    """Register them, unless another component (scispaCy's linker) has."""
    if not Span.has_extension("kb_ents"):
        Span.set_extension("kb_ents", default=[])
    if not Span.has_extension("kb_prob"):
        Span.set_extension("kb_prob", default=None)
    if not Span.has_extension("is_nil"):
        Span.set_extension("is_nil", getter=is_nil)


def is_nil(span: Span) -> bool:
    """Whether the span is linked to "not in the KB"."""
    return span.kb_id_ == NIL
