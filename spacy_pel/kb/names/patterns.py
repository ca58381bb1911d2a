"""The names of a KB as patterns of spaCy's rulers: a matcher for pipelines that have no NER."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from ..entity import Entity
from .name_rules import NameRules, is_abbreviation


def patterns(
    entities: Iterable[Entity], *, label: str, min_length: int, stop_words: Container[str]
) -> Iterator[dict[str, Any]]:
    """A pattern of `span_ruler` or `entity_ruler` for every distinct name and alias that `NameRules` allow.

    A name in up to five capitals is a token pattern, which matches as it is written; any other is a phrase, which a
    ruler with `phrase_matcher_attr = "LOWER"` matches in any case.
    """
    rules = NameRules(min_length, stop_words)
    seen: set[str] = set()
    for entity in entities:
        for name in (entity.name, *entity.aliases):
            key = name if is_abbreviation(name) else name.lower()
            if key in seen or not rules.allow(name):
                continue
            seen.add(key)
            yield {"label": label, "pattern": [{"ORTH": name}] if is_abbreviation(name) else name}
