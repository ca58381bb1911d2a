"""A ranker tuned on annotated Docs: what the linker's scores count beside its own, probabilities, NIL, and which
mentions need not be ranked anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc

from ..checks import check_number
from ..errors import PelError
from ..evaluation.ranking import find_mentions
from ..mentions.gold import GoldMention, annotated_of
from ..mentions.links import Link
from ..mentions.ranked import RankedMention
from ..tuning.calibration import calibration_metrics
from ..tuning.choice import fit_choice
from ..tuning.decision import Deciding, fit_logistic
from ..tuning.enough import few_for_threshold
from ..tuning.nil import NilThreshold, Outcomes, tune_threshold
from ..tuning.ranking import RankTuned, both_scored_in, decided, digest_of, in_order, is_doubtful, scores_by_linker
from ..tuning.resampling import Interval, nil_elsewhere
from .notices import warn_if_not_in_force
from .ranking import scores_of

PRIOR = 10.0  # of the weight of the linker's score: its cosines differ by tenths, scores of a ranker by ones
COSTS = 20  # shares that are tried


class Cost(NamedTuple):
    """What is gained where mentions of which the linker is sure are left alone.

    Attributes:
        share: Of the mentions, that is ranked anew.
        below: The probability of the linker under which they are.
        recall_at_1: Of the mentions in the KB.
    """

    share: float
    below: float
    recall_at_1: float


class TunedRanker(NamedTuple):
    """What `tune_ranker` has found.

    Attributes:
        weight: Of the linker's score beside the ranker's.
        before: Recall@1 of the linker, on the mentions that were tuned on.
        alone: That by the scores of the ranker alone.
        after: That with both, of the mentions that are ranked anew, and of the linker for the others (see `below`).
        nil: The NIL threshold and what is reached with it, so ranked; None where the linker goes on to decide, since
            NIL mentions were too few or the ranker is no better at it.
        elsewhere: The F1 of the NIL class on other documents, if the ranker decides.
        by_linker: The same for what the linker holds its threshold against.
        link_ece: The expected calibration error of the probabilities.
        costs: Recall@1 over the share that is ranked anew; empty where the linker has no probabilities.
        below: See `RankTuned.rerank_below`.
        too_few: A sentence that says what was too little; None for enough.
    """

    weight: float
    before: float
    alone: float
    after: float
    nil: NilThreshold | None
    elsewhere: Interval | None
    by_linker: Interval | None
    link_ece: float | None
    costs: list[Cost]
    below: float | None
    too_few: str | None


class Ranking(NamedTuple):
    """Annotated mentions on which a ranker is tuned or measured, n of them.

    Attributes:
        mentions: The mentions.
        links: What the linker says of each.
        scores: What its first candidates score by the ranker (c,).
    """

    mentions: Sequence[GoldMention]
    links: Sequence[Link]
    scores: Sequence[np.ndarray]

    def take(self, places: Iterable[int]) -> Ranking:
        """Those at `places`."""
        mentions, links, scores = zip(*((self.mentions[i], self.links[i], self.scores[i]) for i in places), strict=True)
        return Ranking(mentions, links, scores)

    def ranked(self, tuned: RankTuned | None = None) -> list[RankedMention]:
        """As the linker has ranked them; with `tuned`, as the ranker does with those that it does not leave alone."""
        links = self.links
        if tuned is not None:
            anew = decided(*in_order(self.links, self.scores, tuned.weight), tuned)
            both = zip(self.links, anew, strict=True)
            links = [new if is_doubtful(old, tuned.rerank_below) else old for old, new in both]
        return [RankedMention.of(*each) for each in zip(self.mentions, links, strict=True)]


def tune_ranker(ranker: Any, docs: Iterable[Doc], *, gain: float | None = None, progress: bool = False) -> TunedRanker:
    """See `PelRanker.tune`.

    Args:
        ranker: A `PelRanker` with weights and a linker.
        docs: Docs with gold mentions.
        gain: The share of the gain in recall@1 that is to be had with as few mentions as possible; None: all mentions
            are ranked anew.
        progress: Whether to show bars.

    Raises:
        PelError: Where no mention has its entity among its candidates; for a gain that is not from 0 to 1, and with
            one where the linker has no probabilities.
    """
    check_number("ranker.tune", "gain", gain, least=0, most=1, optional=True)
    linker, depth = ranker.require_linker(), ranker.settings.top_n
    mentions = annotated_of(docs, linker.kb, linker.settings.labels_discard)
    found = find_mentions(lambda spans: linker.find(spans, depth), mentions, desc="Searching", progress=progress)
    links = linker.links([one.found for one in found])
    if gain is not None:
        _check_probabilities(links)
    scores = scores_of(ranker, [one.span for one in mentions], links, progress=progress)
    tuned, told = fit_ranker(Ranking(mentions, links, scores), linker.kb, gain)
    keep(ranker, tuned)
    if tuned.nil_threshold is not None:
        warn_if_not_in_force(linker.name, "nil_threshold", linker.settings.nil_threshold)
    return told


def keep(ranker: Any, tuned: RankTuned) -> None:
    """Let `ranker` rank by what was `tuned` behind the linker that it has, as that is now."""
    ranker.tuned = replace(tuned, behind=digest_of(ranker.linker), scored_in=both_scored_in(ranker))


def fit_ranker(ranking: Ranking, kb: Any, gain: float | None = None) -> tuple[RankTuned, TunedRanker]:
    """What `tune_ranker` keeps, and what it finds."""
    if gain is not None:
        _check_probabilities(ranking.links)
    weight = _weight(ranking)
    found = _decision(ranking, weight, kb)
    before, alone, both = (
        Outcomes.of(ranking.ranked(own), kb) for own in (None, RankTuned(), RankTuned(weight=weight))
    )
    costs = _costs(ranking.links, before, both)
    tuned = replace(found.tuned, rerank_below=_below(costs, gain))
    ranked = ranking.ranked(tuned)
    after = Outcomes.of(ranked, kb)
    return tuned, TunedRanker(
        weight=weight,
        before=_recall(before),
        alone=_recall(alone),
        after=_recall(after),
        nil=found.nil and _reached(found.nil, after, ranked),
        elsewhere=found.elsewhere,
        by_linker=found.by_linker,
        link_ece=calibration_metrics(ranked)["link_ece"],
        costs=costs,
        below=tuned.rerank_below,
        too_few=found.too_few,
    )


def _have_probabilities(links: Sequence[Link]) -> bool:
    return all(link.probability is not None for link in links if link.candidates)


def _check_probabilities(links: Sequence[Link]) -> None:
    """Check that each of `links` has a probability.

    Raises:
        PelError: One has none.
    """
    if not _have_probabilities(links):
        raise PelError("the linker has no probabilities to tell which mentions need to be ranked: run `tune-nil` first")


def _recall(outcomes: Outcomes) -> float:
    """Recall@1 of the mentions in the KB."""
    return float((outcomes.rank[~outcomes.nil] == 1).mean())


def _reached(nil: NilThreshold, outcomes: Outcomes, ranked: Sequence[RankedMention]) -> NilThreshold:
    """`nil` with what the `ranked` mentions (n,), whose `outcomes` these are, reach as they are linked: not all of them
    by its threshold."""
    called = np.array([one.called_nil for one in ranked], dtype=bool)
    n_right, n_called = int((called & outcomes.nil).sum()), int(called.sum())
    right = outcomes.rank == 1
    return nil._replace(
        precision=n_right / max(n_called, 1),
        recall=n_right / nil.n_nil,
        f1=2 * n_right / (n_called + nil.n_nil),
        recall_at_1=_recall(outcomes),
        linked_right=float((right & ~called)[~outcomes.nil].mean()),
    )


def _weight(ranking: Ranking) -> float:
    """What the linker's scores weigh beside the ranker's."""
    features, right = [], []
    for mention, link, own in zip(*ranking, strict=True):
        ids = np.array([id_ for id_, _ in link.candidates[: len(own)]], dtype=str)
        there = np.isfinite(own)
        features.append(np.column_stack([own, scores_by_linker(link, len(own))])[there])
        right.append(np.isin(ids, mention.ids)[there])
    if not any(own.any() for own in right):
        raise PelError("no mention has its entity among its candidates: there is nothing to tune a ranker on")
    return fit_choice(features, right, [PRIOR]).weights[0]


class _Decided(NamedTuple):
    """What decides on links: what was fitted, and what of `TunedRanker` says how good it is."""

    tuned: RankTuned
    nil: NilThreshold | None = None
    elsewhere: Interval | None = None
    by_linker: Interval | None = None
    too_few: str | None = None


def _decision(ranking: Ranking, weight: float, kb: Any) -> _Decided:
    """Fit the probability that a link is right, and that the KB has what a mention means. The second decides on NIL
    where that is better on other documents than what the linker holds its threshold against."""
    _, evidence = in_order(ranking.links, ranking.scores, weight)
    outcomes = Outcomes.of(ranking.ranked(RankTuned(weight=weight)), kb)
    there = np.array([len(own) > 0 for own in ranking.scores], dtype=bool)
    tuned = RankTuned(weight, right=fit_logistic(evidence[there], outcomes.rank[there] == 1))
    n_nil = int(outcomes.nil.sum())
    if (too_few := few_for_threshold(n_nil, len(outcomes.nil) - n_nil, or_names=False)) is not None:
        return _Decided(tuned, too_few=too_few)
    groups = [id(mention.span.doc) for mention in ranking.mentions]
    by_linker = nil_elsewhere(outcomes, groups)
    by_ranker = nil_elsewhere(outcomes, groups, fit=Deciding(outcomes, evidence).in_kb)
    f1 = by_ranker and by_ranker.f1, by_linker and by_linker.f1
    if by_ranker is None or (by_linker is not None and by_ranker.auprc <= by_linker.auprc):
        return _Decided(tuned, None, *f1)
    tuned = replace(tuned, in_kb=fit_logistic(evidence[there], ~outcomes.nil[there]))
    nil = tune_threshold(ranking.ranked(replace(tuned, nil_threshold=0.0)), kb)
    return _Decided(replace(tuned, nil_threshold=nil.threshold), nil, *f1)


def _costs(links: Sequence[Link], before: Outcomes, after: Outcomes) -> list[Cost]:
    """Recall@1 where only the mentions of which the linker is least sure are ranked anew, from none to all."""
    if not _have_probabilities(links):
        return []
    sure = np.array([link.probability or 0.0 for link in links])
    costs = []
    for share in np.linspace(0, 1, COSTS + 1):
        below = float(np.quantile(sure, share)) if share < 1 else np.nextafter(1.0, 2.0)
        anew = sure < below
        hits = np.where(anew, after.rank, before.rank)[~before.nil] == 1
        costs.append(Cost(float(anew.mean()), float(below), float(hits.mean())))
    return costs


def _below(costs: Sequence[Cost], gain: float | None) -> float | None:
    """The least probability under which mentions must be ranked anew for that share of the gain."""
    if gain is None:
        return None
    least, most = costs[0].recall_at_1, costs[-1].recall_at_1
    wanted = min(least + gain * (most - least), most)  # rounding may lift it over the most
    return next(one.below for one in costs if one.recall_at_1 >= wanted)
