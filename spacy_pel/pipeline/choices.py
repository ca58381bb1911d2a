"""What a ranker learns from: gold mentions, each with the candidates of the linker and its own entity among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from ..kb.entity import Entity
from ..kb.numbering import both_ways, is_among
from ..mentions.gold import GoldMention
from ..search.find import reread
from ..training.ranking import Choice
from .candidates import KeptCandidates


class Choices:
    """Makes them of gold mentions.

    Args:
        linker: With its KB, indexed.
        kept: What it finds.
        top_n: How many candidates there are of a mention.
        seed: Of the draws, where a mention has several correct entities.

    Attributes:
        kept: See the argument.
    """

    def __init__(self, linker: Any, kept: KeptCandidates, top_n: int, seed: int) -> None:
        self.linker, self.kept, self._top_n = linker, kept, top_n
        self._made_for = _decides(linker, top_n)
        self._rng = np.random.default_rng(seed)
        self._same = both_ways(linker.kb.same_concepts())

    def hold(self, linker: Any, top_n: int) -> bool:
        """Say whether `linker` is the one they were made for, with its encoder, KB and settings as they were then, and
        `top_n` is what it was."""
        return self._made_for == _decides(linker, top_n)

    def of(self, mentions: Sequence[GoldMention]) -> list[Choice]:
        """The choices of those of `mentions` that the KB has an entity for which the settings of the linker allow.
        Where no correct one is among the candidates, one takes the place of the last. Entities that the KB marks as the
        same concept as a correct one are not wrong."""
        found = self.kept.of(mentions)
        sought = [*(one.ids for one in found), *(one.ids for one in mentions)]
        rows = self.linker.kb.rows({id_ for ids in sought for id_ in ids})
        spans = reread([one.span for one in mentions], [one.read for one in found], self.linker.reading)
        entities: dict[str, Entity] = self.linker.kb.get_many(rows)
        choices = []
        for mention, span, (ids, _) in zip(mentions, spans, found, strict=True):
            known = [id_ for id_ in mention.ids if id_ in entities]
            gold = self._allowed(known, rows, mention.span.label_)
            if not gold or not ids:
                continue
            ids = [id_ for id_ in ids if id_ in entities]
            if set(gold).isdisjoint(ids):
                ids = [*ids[: self._top_n - 1], gold[self._rng.integers(len(gold))]]
            not_wrong = {rows[id_] for id_ in known}.union(*(self._same.get(rows[id_], ()) for id_ in known))
            choices.append(
                Choice(
                    span,
                    [entities[id_] for id_ in ids],
                    [id_ in gold for id_ in ids],
                    [rows[id_] not in not_wrong for id_ in ids],
                )
            )
        return choices

    def _allowed(self, ids: Sequence[str], rows: Mapping[str, int], label: str) -> list[str]:
        """Those of `ids`, with their `rows`, that a mention with that label can be linked to."""
        allowed = self.linker.settings.allowed_for(label)
        if allowed is None:
            return list(ids)
        there = is_among(np.array([rows[id_] for id_ in ids], dtype=np.int64), self.linker.kb.rows_allowed(allowed))
        return list(compress(ids, there))


def _decides(linker: Any, top_n: int) -> tuple:
    """What decides the choices, cheap to compare."""
    kb = linker.require_kb()
    return linker, linker.model, kb, kb.moment, linker.settings, linker.name_weights, top_n
