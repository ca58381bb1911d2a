"""Character offsets → spans of whole tokens."""

from __future__ import annotations

from spacy.tokens import Doc, Span

UNTYPED = "MENTION"  # spaCy drops entities without a label


def expanded_span(doc: Doc, text: str, start: int, end: int, *, label: str, kb_id: str = "") -> Span:
    """Return the span of the tokens that some characters touch.

    Args:
        doc: A Doc.
        text: Its text. `doc.text` joins all tokens each time, which is much where a Doc has many mentions.
        start: The first character.
        end: The character after the last. Whitespace at either end is left out; there must be something else.
        label: Of the span; `UNTYPED` stands in for an empty one.
        kb_id: Of the span.
    """
    found = text[start:end]
    start += len(found) - len(found.lstrip())
    end = start + len(found.strip())
    span = doc.char_span(start, end, label=label or UNTYPED, kb_id=kb_id, alignment_mode="expand")
    assert span is not None  # both ends are characters of tokens
    return span
