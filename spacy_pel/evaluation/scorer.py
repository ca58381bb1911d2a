"""`spacy_pel.link_scorer.v1`: the score columns that `spacy train` shows for a linker."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from spacy.training import Example

from ..checks import check_count
from ..mentions.gold import GoldMention, gold_mentions, gold_of, on_predicted, with_successors
from ..models.listener import listens
from .metrics import link_metrics
from .ranking import rank_mentions

NO_SCORES = {"nel_recall_at_1": None, "nel_recall_at_64": None, "nel_nil_f1": None}


@dataclass(frozen=True)
class LinkScorer:
    """Recall at 1 and at 64 over the gold mentions of the references that are in the KB, NIL threshold aside; the F1 of
    the NIL class under it.

    While the linker is being trained, its KB is encoded anew and searched by vectors alone.

    Attributes:
        kb_sample: While the linker is being trained, only the gold entities and that many others of the KB, drawn by
            `seed`, are encoded and searched, so that an evaluation need not encode a large KB. Scores are then higher
            than over the whole KB, and comparable with each other. 0 for the whole KB.
        seed: Of that sample.

    Raises:
        PelError: kb_sample is under 0.
    """

    kb_sample: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("[components.pel_linker.scorer]", "kb_sample", self.kb_sample, hint=" of entities; 0 takes all")
        check_count("[components.pel_linker.scorer]", "seed", self.seed)

    def __call__(self, examples: Iterable[Example], *, linker: Any, **kwargs: Any) -> dict[str, float | None]:
        """Score the links of `linker`.

        Args:
            examples: Their references have gold mentions.
            linker: A `PelLinker`.
            kwargs: Ignored.

        Returns:
            `nel_recall_at_1`, `nel_recall_at_64` and `nel_nil_f1`, each None where there is nothing to measure.
        """
        if linker.kb is None:
            return dict(NO_SCORES)
        mentions = _mentions(examples, linker)
        options: dict[str, Any] = {}
        if linker.outdated:  # the KB as it is encoded now, by vectors alone
            live = linker.begin_training().live
            options["progress"] = True
            if self.kb_sample:
                rows = _gold_and_others(mentions, linker.kb, self.kb_sample, self.seed)
                options["search"] = live.search_over(rows)
            else:
                options["search"] = live.search()
        ranked = rank_mentions(linker, mentions, k=64, **options)
        metrics = link_metrics(ranked, linker.kb, nil_threshold=linker.threshold, as_linked=True)
        return {key: metrics[key.removeprefix("nel_")] for key in NO_SCORES}


def _mentions(examples: Iterable[Example], linker: Any) -> list[GoldMention]:
    """The gold mentions of the references, in the predicted Docs where a `transformer` pipe has read these."""
    if not listens(linker.model):
        return gold_of((example.reference for example in examples), linker.kb)
    read = (on_predicted(gold_mentions(example.reference), example) for example in examples)
    return with_successors((mention for own in read for mention in own), linker.kb)


def _gold_and_others(mentions: Iterable[GoldMention], kb: Any, n_others: int, seed: int) -> np.ndarray:
    """The rows of the gold entities of `mentions` and of `n_others` more, ascending."""
    gold = np.array(list(kb.rows({id_ for mention in mentions for id_ in mention.ids}).values()), dtype=np.int64)
    others = np.setdiff1d(kb.live_rows, gold)
    drawn = np.random.default_rng(seed).permutation(others)[:n_others]
    return np.union1d(gold, drawn)
