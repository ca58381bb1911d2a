"""Gold mentions put before a linker: what it finds for each, beside what is correct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from spacy.tokens import Doc, Span
from tqdm import tqdm

from ..mentions.gold import GoldMention, gold_of
from ..mentions.ranked import RankedMention

CHUNK = 2048  # mentions between two steps of the progress bar; far above any batch, so it costs no speed


class CanRank(Protocol):
    """What can be evaluated: it gives (id, score) for each span, best first, of the entities in its `kb`."""

    kb: Any

    def rank(self, spans: Sequence[Span], k: int, **options: Any) -> list[list[tuple[str, float]]]: ...


def rank_gold(
    linker: CanRank, docs: Iterable[Doc], k: int, *, progress: bool = False, **options: Any
) -> list[RankedMention]:
    """The best `k` candidates for every gold mention of `docs`, in their order; retired gold ids as their successors.

    Unannotated mentions are not ranked, since no measure looks at their candidates: theirs are empty.

    Args:
        linker: What ranks.
        docs: Docs with gold mentions.
        k: How many candidates.
        progress: Whether to show a bar, if standard error is a terminal, until all are ranked.
        options: More arguments for the linker's `rank`.
    """
    return rank_mentions(linker, gold_of(docs, linker.kb), k, progress=progress, **options)


def rank_mentions(
    linker: CanRank, mentions: Sequence[GoldMention], k: int, *, progress: bool = False, **options: Any
) -> list[RankedMention]:
    """`rank_gold` for these mentions."""
    spans = [mention.span for mention in mentions if mention.ids]
    found: list[list[tuple[str, float]]] = []
    shown = {"leave": False, "disable": None if progress else True}
    with tqdm(total=len(spans), desc="Linking", unit=" mentions", **shown) as bar:
        for start in range(0, len(spans), CHUNK):
            chunk = spans[start : start + CHUNK]
            found.extend(linker.rank(chunk, k, **options))
            bar.update(len(chunk))
    candidates = iter(found)
    return [RankedMention(mention.ids, next(candidates) if mention.ids else (), mention.form) for mention in mentions]
