"""A linker with the ranker behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spacy.language import Language

from ..components import find_ranker
from ..mentions.links import Link
from ..search.search import Found


class Reranked:
    """A linker with the `pel_ranker` behind it, as one linker."""

    def __init__(self, linker: Any, ranker: Any) -> None:
        self._linker, self._ranker = linker, ranker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._linker, name)

    def links(self, found: Sequence[Found]) -> list[Link]:
        """What the ranker makes of the links of the linker."""
        return self._ranker.rerank([one.read for one in found], self._linker.links(found))

    @property
    def threshold(self) -> float | None:
        """The NIL threshold in force."""
        return self._ranker.threshold

    @property
    def tuned(self) -> Any:
        """What was tuned of the ranker."""
        return self._ranker.tuned


def with_ranker(nlp: Language, linker: Any) -> Any:
    """The `linker` of a pipeline, with the ranker behind it if there is one, as one linker."""
    found = find_ranker(nlp)
    return linker if found is None else Reranked(linker, found[1])
