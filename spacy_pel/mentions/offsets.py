"""Character offsets → spans of whole tokens."""

from __future__ import annotations

from spacy.tokens import Doc, Span

UNTYPED = "MENTION"  # spaCy drops entities without a label


def expanded_span(doc: Doc, start: int, end: int, *, label: str, kb_id: str = "") -> Span:
    """The tokens that the characters `start` to `end` touch; whitespace at their ends is left out. There must be other
    characters among them. label: `UNTYPED` stands in for an empty one."""
    found = doc.text[start:end]
    start += len(found) - len(found.lstrip())
    end = start + len(found.strip())
    span = doc.char_span(start, end, label=label or UNTYPED, kb_id=kb_id, alignment_mode="expand")
    assert span is not None  # both ends are characters of tokens
    return span
