"""Gold mentions put before a linker: what it finds for each, beside what is correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, Protocol

from spacy.tokens import Span
from tqdm import tqdm

from ..kb.entity import NIL
from ..mentions.gold import GoldMention, searched
from ..mentions.links import Link
from ..mentions.ranked import RankedMention
from ..search.search import Found
from ..tuning.name_weights import GoldFound

CHUNK = 2048  # mentions between two steps of the progress bar; far above any batch, so it costs no speed


class CanLink(Protocol):
    """What can be evaluated: it finds candidates for each span, best first, among the entities of its `kb`, and says
    what it makes of them."""

    kb: Any
    settings: Any

    def find(self, spans: Sequence[Span], k: int, **options: Any) -> list[Found]: ...

    def links(self, found: Sequence[Found]) -> list[Link]: ...


def rank_mentions(
    linker: CanLink, mentions: Sequence[GoldMention], k: int, *, progress: bool = False, **options: Any
) -> list[RankedMention]:
    """The best `k` candidates for each of `mentions`, in their order.

    Unannotated mentions are not ranked, since no measure looks at their candidates: theirs are empty. So are those of
    mentions whose label is one of `labels_discard`, which are NIL as in a pipeline.

    Args:
        linker: What ranks.
        mentions: Gold mentions, such as `gold_of` gives.
        k: How many candidates.
        progress: Whether to show a bar, if standard error is a terminal, until all are ranked.
        options: More arguments for the linker's `find`.
    """
    discarded = linker.settings.labels_discard
    wanted = [searched(mention, discarded) for mention in mentions]
    found = find_mentions(
        lambda spans: linker.find(spans, k, **options), list(compress(mentions, wanted)), progress=progress
    )
    made = iter(linker.links([one.found for one in found]))
    links = (next(made) if own else Link(NIL, []) for own in wanted)
    return [RankedMention.of(mention, link) for mention, link in zip(mentions, links, strict=True)]


def find_mentions(
    find: Callable[[list[Span]], Sequence[Found]],
    mentions: Sequence[GoldMention],
    *,
    desc: str = "Linking",
    leave: bool = False,
    progress: bool = False,
) -> list[GoldFound]:
    """What `find` finds for each of `mentions`, asked for many spans at a time.

    Args:
        find: From spans to what is found for each.
        mentions: What to find.
        desc: Of the bar.
        leave: Whether the bar stays.
        progress: Whether to show a bar, if standard error is a terminal.
    """
    found: list[GoldFound] = []
    shown = {"desc": desc, "leave": leave, "disable": None if progress else True}
    with tqdm(total=len(mentions), unit=" mentions", **shown) as bar:
        for chunk in _chunks(mentions):
            found += map(GoldFound, chunk, find([mention.span for mention in chunk]))
            bar.update(len(chunk))
    return found


def _chunks(mentions: Sequence[GoldMention]) -> Iterator[list[GoldMention]]:
    """`mentions` in parts of `CHUNK` or more: those of a Doc, one of which may be another's name, stay together."""
    chunk: list[GoldMention] = []
    for mention in mentions:
        if len(chunk) >= CHUNK and mention.span.doc is not chunk[-1].span.doc:
            yield chunk
            chunk = []
        chunk.append(mention)
    if chunk:
        yield chunk
