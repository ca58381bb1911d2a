"""The measures of entity linking over gold mentions, and nothing that computes a ranking."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ..mentions.gold import GoldMention
from ..mentions.gold import ambiguous_forms as ambiguous_forms_of
from ..mentions.ranked import RankedMention, held_alike
from ..tuning.nil import Outcomes, average_precision

MIN_DEPTH = 64  # candidates of a mention: recall_at_64 is always reported


def link_metrics(
    mentions: Sequence[RankedMention],
    kb_ids: Container[str],
    *,
    nil_threshold: float | None = None,
    as_linked: bool = False,
    train_ids: Container[str] | None = None,
    ambiguous_forms: Container[str] | None = None,
) -> dict[str, Any]:
    """Measure a ranking: fractions in [0, 1], counts, and None for a measure with nothing to measure.

    A mention is *in the KB* if any of its ids is, else *NIL*; unannotated ones are only counted (`n_unannotated`).

    - `recall_at_k` (k = 1, 5, 16, 64): share of the mentions in the KB with a correct id among their first k;
      `mrr`: mean of 1 / rank of the first correct id, 0 where none was found. The threshold plays no part in either.
    - `seen_recall_at_1`, `unseen_recall_at_1`: by whether any id of the mention is in `train_ids`; None without them.
    - `ambiguous_recall_at_1`: over the `n_ambiguous` of them whose form is in `ambiguous_forms`, where only the context
      can tell; None without such forms given.
    - `nil_precision`, `nil_recall`, `nil_f1`: the NIL class, predicted where what the threshold is held against (see
      `RankedMention.held`) is below it; with `as_linked` where it was linked so, by a linker with that threshold.
    - `all_recall_at_k` (k = 1, 64): over all annotated mentions, NIL being one more class: a mention under the
      threshold predicts NIL at every k, one at or above it never does. Like the nil_* before, None without a threshold.
    - `nil_auprc`: average precision of the same, negated, for the NIL class; read it beside `nil_base_rate`, its value
      for scores that say nothing. None where some have a confidence and others a score only (see `held_alike`).
    """
    annotated = [mention for mention in mentions if mention.gold]
    held, nil, rank = Outcomes.of(mentions, kb_ids)

    def recall(k: int, among: np.ndarray) -> float | None:
        return _mean(rank[among] <= k)

    metrics: dict[str, Any] = {
        "n_mentions": len(annotated),
        "n_in_kb": int((~nil).sum()),
        "n_nil": int(nil.sum()),
        "n_unannotated": len(mentions) - len(annotated),
        **{f"recall_at_{k}": recall(k, ~nil) for k in (1, 5, 16, 64)},
        "mrr": _mean(1 / rank[~nil]),
        "seen_recall_at_1": None,
        "unseen_recall_at_1": None,
        "n_ambiguous": None,
        "ambiguous_recall_at_1": None,
        **dict.fromkeys(("all_recall_at_1", "all_recall_at_64", "nil_precision", "nil_recall", "nil_f1")),
        "nil_auprc": average_precision(nil, -held) if held_alike(annotated) else None,
        "nil_base_rate": _mean(nil),
        "nil_threshold": nil_threshold,
    }
    if train_ids is not None:
        seen = np.array([any(id_ in train_ids for id_ in mention.gold) for mention in annotated], dtype=bool)
        metrics["seen_recall_at_1"] = recall(1, ~nil & seen)
        metrics["unseen_recall_at_1"] = recall(1, ~nil & ~seen)
    if ambiguous_forms is not None:
        ambiguous = ~nil & np.array([mention.form in ambiguous_forms for mention in annotated], dtype=bool)
        metrics["n_ambiguous"] = int(ambiguous.sum())
        metrics["ambiguous_recall_at_1"] = recall(1, ambiguous)
    if nil_threshold is not None:
        under = np.array([one.called_nil for one in annotated], dtype=bool) if as_linked else held < nil_threshold
        metrics["nil_precision"] = _mean(nil[under])
        metrics["nil_recall"] = _mean(under[nil])
        metrics["nil_f1"] = _fraction(2 * (nil & under).sum(), nil.sum() + under.sum())
        for k in (1, 64):
            metrics[f"all_recall_at_{k}"] = _mean(np.where(under, nil, rank <= k))
    return metrics


def seen_and_ambiguous(mentions: Sequence[GoldMention], learnt: Sequence[GoldMention]) -> dict[str, Any]:
    """What `link_metrics` is told of the `learnt` mentions of a training corpus: their ids, and the forms that mean one
    entity here and another there, among `mentions` or these."""
    return {
        "train_ids": {id_ for mention in learnt for id_ in mention.ids},
        "ambiguous_forms": ambiguous_forms_of([*learnt, *mentions]),
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _fraction(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None
