"""What is given to a linker in Python: each check says what to give instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Span

from ..checks import check_count, named, refused
from ..errors import PelError
from .settings import LinkSettings


def check_ranked(spans: Any, k: Any) -> None:
    """Check what `PelLinker.rank` is given.

    Raises:
        PelError: `spans` is no sequence of Spans, or `k` under 1.
    """
    check_count("linker.rank", "k", k, least=1)
    if not isinstance(spans, Sequence) or not all(isinstance(span, Span) for span in spans):
        raise PelError(f"{named(spans)} is no list of Spans; give mentions, such as list(doc.ents).")


def check_explained(span: Any, k: Any, by: str = "linker") -> None:
    """Check what `explain` of a linker, or of what else `by` says, is given.

    Raises:
        PelError: `span` is no Span, or `k` under 1.
    """
    if not isinstance(span, Span):
        raise PelError(f"{named(span)} is no Span; give one mention, such as doc.ents[0] or doc[2:4].")
    check_count(f"{by}.explain", "k", k, least=1, hint=": ask for at least one candidate")


def ids_given(ids: Any) -> list[str]:
    """`ids` as a list.

    Raises:
        PelError: They are no texts in a list.
    """
    found: list[Any] = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else [None]
    if not all(isinstance(one, str) for one in found):
        raise PelError(f'{named(ids)} is no list of ids; give ["{ids if isinstance(ids, str) else "C01"}"].')
    return found


def path_given(path: Any) -> Path:
    """`path` as a Path.

    Raises:
        PelError: It is none, nor a text.
    """
    if not isinstance(path, str | Path):
        raise PelError(f"{named(path)} is no KB; give the folder of one, or a KnowledgeBase.")
    return Path(path)


def check_attribute(name: str, value: Any) -> None:
    """Check that `value` can be the attribute `name` of a linker.

    Raises:
        PelError: It is no KB, such as a path to one, or no settings.
    """
    if name == "kb" and not (value is None or hasattr(value, "entity_index")):
        raise refused("linker", name, value, "call linker.set_kb with the folder of a KB, or with a KnowledgeBase")
    if name == "settings" and not isinstance(value, LinkSettings):
        raise refused("linker", name, value, "give LinkSettings, or set one setting, such as linker.top_k = 16")
