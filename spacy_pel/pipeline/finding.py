"""What a linker finds for gold mentions, before any weighing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from spacy.vocab import Vocab
from thinc.api import Model

from ..evaluation.ranking import find_mentions
from ..mentions.gold import GoldMention
from ..search.find import Reading, find
from ..search.weights import NO_NAMES
from ..tuning.name_weights import GoldFound
from .indexing import search_of
from .settings import LinkSettings


class CanFind(Protocol):
    """What finds: a linker with its KB."""

    kb: Any
    model: Model
    settings: LinkSettings
    vocab: Vocab

    @property
    def fingerprints(self) -> dict[str, str]: ...


def find_for(
    linker: CanFind,
    mentions: Sequence[GoldMention],
    *,
    resolve_abbreviations: bool,
    deeper: int = 0,
    progress: bool = False,
) -> list[GoldFound]:
    """All that a search by vectors and by names finds for each of `mentions`, read by itself or its long form, among
    the entities that the linker allows. `deeper`: by how many candidates deeper than the linker.

    Raises:
        PelError: Without a KB and its index, and for a KB of format 2, whose names have no index.
    """
    settings = linker.settings
    depth, lang = settings.top_k + deeper, linker.vocab.lang
    reading = Reading(depth, None, settings.allowed_for, resolve_abbreviations, lang=lang)
    search = search_of(linker.model, linker.kb, linker.fingerprints, NO_NAMES, settings, compare_names=True)
    return find_mentions(
        lambda spans: find(linker.model, linker.kb, search, spans, reading),
        mentions,
        desc="Searching",
        leave=True,
        progress=progress,
    )
