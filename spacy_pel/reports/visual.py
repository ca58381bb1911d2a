"""Linked entities as HTML, drawn by displaCy: each with its label, its name in the KB, its id and the id's page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spacy import displacy
from spacy.errors import Warnings
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..components import made_by
from ..errors import PelError
from ..files.atomic import write_atomically
from ..kb.entity import NIL

NIL_COLOUR = "#ffb8a8"
NORMAL = "font-weight: normal"


def render_links(
    docs: Doc | Span | Iterable[Doc | Span],
    kb: Any = None,
    *,
    kb_url_template: str | None = None,
    spans_key: str | None = None,
    options: Mapping[str, Any] | None = None,
    page: bool = False,
    jupyter: bool | None = None,
    output: str | Path | None = None,
) -> str | None:
    """Draw the entities of `docs`: text, label, and what they are linked to. NIL has a colour of its own and is never a
    hyperlink. `doc.user_data["title"]` is the heading of a Doc.

    Args:
        docs: What to draw.
        kb: Where names come from: a `KnowledgeBase`, a linker or a pipeline with one; None to show bare ids. Of several
            linkers in a pipeline, the first that links what is drawn, or else the first.
        kb_url_template: The address of an entity's page, with {} for its id; None for no hyperlinks. Only addresses of
            http and https, and relative ones, become hyperlinks.
        spans_key: Draw this group of `doc.spans` in place of the entities; of spans that overlap, the longest.
        options: displaCy's for entities: in `ents` and `colors` "NIL" is a label too.
        page: Whether to make a whole HTML page; in ASCII, so that it needs no encoding declared.
        jupyter: Whether to show it in a notebook; None to show it if this is one.
        output: Write a whole page to this file instead.

    Returns:
        The HTML; None where a notebook shows it or a file holds it.

    Raises:
        PelError: For docs that are neither Docs nor spans, a template without {}, and a `kb` without a KB.
    """
    if kb_url_template is not None and "{}" not in kb_url_template:
        raise PelError(f'kb_url_template="{kb_url_template}" has no {{}}, where the id goes; put it in')
    entities, options = _entities(kb, spans_key), dict(options or {})
    colours = {NIL: NIL_COLOUR} | {label.upper(): colour for label, colour in options.get("colors", {}).items()}
    wanted = options.pop("ents", None)
    labels = None if wanted is None else frozenset(label.upper() for label in wanted)
    given = [docs] if isinstance(docs, Doc | Span) or not isinstance(docs, Iterable) else docs
    drawn = [_drawn(doc, spans_key, labels, entities, kb_url_template, colours[NIL]) for doc in given]
    is_page, shown = page or output is not None, False if output is not None else jupyter
    html = displacy.render(drawn, style="ent", manual=True, page=is_page, jupyter=shown, options=options)
    if html is None or not is_page:
        return html
    ascii_page = html.encode("ascii", "xmlcharrefreplace")
    if output is None:
        return ascii_page.decode()
    write_atomically(Path(output), ascii_page)
    return None


def _entities(kb: Any, spans_key: str | None) -> Mapping[str, Any]:
    """The entities by id that `kb`, a KB or what has one, stands for where the group `spans_key` is drawn."""
    if kb is None:
        return {}
    if isinstance(kb, Language):
        linkers: list[Any] = [kb.get_pipe(name) for name in made_by(kb, "pel_linker")]
        kb = next((one for one in linkers if one.spans_key == spans_key), linkers[0] if linkers else None)
    found = getattr(kb, "kb", kb)
    if not isinstance(found, Mapping):
        raise PelError("kb: there is no KB in it to take names from; give linker.kb, or leave it out to show bare ids")
    return found


def _drawn(
    doc: Doc | Span,
    spans_key: str | None,
    labels: frozenset[str] | None,
    entities: Mapping[str, Any],
    url: str | None,
    nil_colour: str,
) -> dict[str, Any]:
    """What displaCy draws. It escapes the text and nothing else, so the rest is escaped here."""
    if not isinstance(doc, Doc | Span):
        raise PelError(f"docs: {type(doc).__name__} is neither a Doc nor a Span; give what nlp(text) returns")
    whole, start = (doc.doc, doc.start_char) if isinstance(doc, Span) else (doc, 0)
    drawn = []
    for ent in _shown(doc, spans_key):
        is_nil = ent.kb_id_ == NIL
        if labels is None or ent.label_.upper() in labels or (is_nil and NIL in labels):
            # `params` are what the template of an entity is filled with, after all else
            params = {"label": escape(ent.label_), "kb_link": _link(ent.kb_id_, entities, url)}
            params |= {"bg": nil_colour} if is_nil else {}
            place = {"start": ent.start_char - start, "end": ent.end_char - start}
            drawn.append(place | {"label": ent.label_, "kb_id": ent.kb_id_, "params": params})
    if not drawn:
        warnings.warn(Warnings.W006, stacklevel=3)
    title = escape(str(whole.user_data.get("title") or ""))
    return {"text": doc.text, "ents": drawn, "title": title, "settings": displacy.get_doc_settings(whole)}


def _shown(doc: Doc | Span, spans_key: str | None) -> Iterable[Span]:
    if spans_key is None:
        return doc.ents
    whole, start, end = (doc.doc, doc.start, doc.end) if isinstance(doc, Span) else (doc, 0, len(doc))
    if spans_key not in whole.spans:
        there = ", ".join(map(repr, whole.spans)) or "none"
        raise PelError(f"spans_key: a Doc has no group {spans_key!r} (its groups: {there}); correct the key")
    return filter_spans(span for span in whole.spans[spans_key] if start <= span.start and span.end <= end)


def _link(kb_id: str, entities: Mapping[str, Any], url: str | None) -> str:
    """The ids of `"A|B"` one by one, with their names; nothing where no linker has been."""
    return "".join(f" {_one(id_, entities, url)}" for id_ in kb_id.split("|") if id_)


def _one(kb_id: str, entities: Mapping[str, Any], url: str | None) -> str:
    entity = entities.get(kb_id)
    text = escape(f"{entity.name} · {kb_id}" if entity else kb_id)
    address = None if url is None or kb_id == NIL else url.replace("{}", quote(kb_id, safe=":/#"))
    if address is None or not _is_of_web(address):
        return f'<span style="{NORMAL}">{text}</span>'
    return f'<a style="{NORMAL}; color: inherit" href="{escape(address)}">{text}</a>'


def _is_of_web(address: str) -> bool:
    """Whether an address is one of http or https, or relative, and no script that a click runs."""
    scheme, colon, _ = re.split("[/?#]", "".join(address.split()), maxsplit=1)[0].partition(":")
    return not colon or scheme.lower() in ("http", "https")
