"""Mentions that come with a text, as JSON has them: `{"start": …, "end": …, "label": …, "kb_id": …}` in characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spacy.tokens import Doc, Span

from ..errors import PelError
from ..files.json_lines import did_you_mean
from ..files.json_lines import text as text_of
from ..kb.entity import NIL
from .offsets import expanded_span

SHAPE = '{"start": …, "end": …, "label": …, "kb_id": …}'
KEYS = ("start", "end", "text", "label", "kb_id", "is_nil", "kb_ents", "kb_prob", "codes")  # as `link` writes them


def given_spans(doc: Doc, text: str, ents: Any) -> Iterator[Span]:
    """The mentions `ents` of `doc`, widened to token boundaries, with their ids: "" where there is none.

    Args:
        doc: Of `text`.
        text: What `ents` count characters of.
        ents: A list of objects; keys other than `KEYS` are left alone.

    Raises:
        PelError: One is no span of the text, holds another text than it says, has an id that is no text, or a key that
            is nearly one of `KEYS`.
    """
    if not isinstance(ents, list):
        raise PelError(f'"ents" is no list; make it [{SHAPE}, …]')
    for i, ent in enumerate(ents):
        yield _span(doc, text, ent, f'"ents"[{i}]')


def _span(doc: Doc, text: str, ent: Any, where: str) -> Span:
    if not isinstance(ent, dict):
        raise PelError(f"{where} is no object; write {SHAPE}")
    _check_keys(ent, where)
    start, end = ent.get("start"), ent.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise PelError(f"{where}: start {start!r} and end {end!r} are no span of the text; count in characters")
    found = text[start:end]
    if not found.strip():
        raise PelError(f"{where}: there is only whitespace from {start} to {end}; leave it out")
    if ent.get("text", found) != found:
        raise PelError(f"{where}: offsets {start}-{end} hold {found!r}, not {ent['text']!r}; count in characters")
    ids = "|".join(filter(None, map(str.strip, text_of(ent, "kb_id").split("|"))))
    kb_id = ids or (NIL if ent.get("is_nil") is True else "")
    return expanded_span(doc, text, start, end, label=text_of(ent, "label"), kb_id=kb_id)


def _check_keys(ent: dict[str, Any], where: str) -> None:
    missing = [key for key in KEYS if key not in ent]
    for key in ent.keys() - set(KEYS):
        if hint := did_you_mean(key, missing):
            raise PelError(f'{where} has "{key}"{hint}')
