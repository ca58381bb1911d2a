"""What a ranker scores the candidates of gold mentions, in a file: a bi-encoder learns from it (`Distillation`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy.tokens import Doc

from ..errors import PelError
from ..evaluation.ranking import find_mentions
from ..files.atomic import write_atomically
from ..mentions.gold import gold_of
from ..training.distillation import mention_key
from ..tuning.ranking import scores_by_linker
from .ranking import scores_of

DIGITS = 4


def write_targets(ranker: Any, docs: Iterable[Doc], path: Path, *, progress: bool = False) -> tuple[int, int]:
    """Write to `path` the scores of the first `top_n` candidates of each gold mention of `docs`: those of the ranker,
    and those of the linker as `tune-ranker` has weighed them. Mentions whose entity is not among the candidates have
    nothing to be learnt, and are left out.

    Args:
        ranker: A `PelRanker` with weights and a linker.
        docs: Docs with gold mentions.
        path: A file of JSON lines, see `spacy_pel.training.distillation`.
        progress: Whether to show bars.

    Returns:
        How many mentions were written, and how many have ids of the KB.

    Raises:
        PelError: None can be written.
    """
    linker, depth = ranker.require_linker(), ranker.settings.top_n
    mentions = [mention for mention in gold_of(docs, linker.kb) if any(id_ in linker.kb for id_ in mention.ids)]
    found = find_mentions(lambda spans: linker.find(spans, depth), mentions, desc="Searching", progress=progress)
    kept = [(m, own) for m, own in zip(mentions, (one.found for one in found), strict=True) if {*m.ids} & {*own.ids}]
    if not kept:
        raise PelError("no mention has its entity among its candidates: there is nothing to be learnt of the ranker")
    links = linker.links([own for _, own in kept])
    scores = scores_of(ranker, [mention.span for mention, _ in kept], links, progress=progress)
    lines = []
    for (mention, _), link, own in zip(kept, links, scores, strict=True):
        together = own + ranker.tuned.weight * scores_by_linker(link, len(own))
        pairs = [(id_, score) for (id_, _), score in zip(link.candidates, together.tolist(), strict=False)]
        there = [(id_, round(score, DIGITS)) for id_, score in pairs if np.isfinite(score)]
        ids, values = zip(*there, strict=True)
        lines.append({"mention": mention_key(mention.span), "text": mention.span.text, "ids": ids, "scores": values})
    write_atomically(path, "".join(srsly.json_dumps(line) + "\n" for line in lines).encode())
    return len(kept), len(mentions)
