"""The extensions of spans: `kb_ents`, `kb_prob`, `kb_read`, `kb_xrefs`, `is_nil`, or other names where somebody else
has these."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

from spacy.tokens import Span

from ..kb.entity import NIL
from .xrefs import HasKb, note_linker, xrefs_of


def is_nil(span: Span) -> bool:
    """Say whether the span is linked to "not in the KB"."""
    return span.kb_id_ == NIL


EXTENSIONS: dict[str, dict[str, Any]] = {
    "kb_ents": {"default": []},
    "kb_prob": {"default": None},
    "kb_read": {"default": None},
    "kb_xrefs": {"getter": xrefs_of},
    "is_nil": {"getter": is_nil},
}


def set_extensions(linker: HasKb | None = None) -> None:
    """Register the extensions of spans, for a linker too. scispaCy's has a `kb_ents` that is the same."""
    if linker is not None:
        note_linker(linker)
    for name in EXTENSIONS:
        extension(name)


def extension(name: str) -> str:
    """Return the name under which spans have our extension `name`: with "pel_" before it where the name is that of
    somebody else's, which is left as it is."""
    if not Span.has_extension(name):
        Span.set_extension(name, **EXTENSIONS[name])
    return name if _is_ours(name) else other_name(name)


def _is_ours(name: str) -> bool:
    default, method, getter, setter = Span.get_extension(name)
    ours = EXTENSIONS[name]
    is_default = type(default) is type(ours.get("default")) and default == ours.get("default")
    return is_default and method is setter is None and getter is ours.get("getter")


@cache
def other_name(name: str) -> str:
    """Register our extension `name` under another name, say so, and return that; once for each."""
    other = f"pel_{name}"
    Span.set_extension(other, **EXTENSIONS[name], force=True)
    warnings.warn(
        f"span._.{name} is an extension of somebody else's and stays as it is: what pel_linker says is in "
        f"span._.{other}. Name the other extension differently to have it in span._.{name}.",
        stacklevel=2,
    )
    return other
