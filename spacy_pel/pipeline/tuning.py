"""A linker tuned on annotated Docs, or on the names of its KB: what names count, the NIL threshold, probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from spacy.tokens import Doc

from ..errors import PelError
from ..evaluation.metrics import link_metrics
from ..evaluation.ranking import CanLink, find_mentions
from ..mentions.gold import annotated_of
from ..mentions.ranked import RankedMention
from ..search.evidence import evidence_of
from ..search.weights import DEFAULT, NO_NAMES, NameWeights
from ..tuning.calibration import Calibration, calibration_metrics, fit_ranked
from ..tuning.decision import Deciding, Decision
from ..tuning.enough import few_for_threshold, few_for_weights
from ..tuning.name_weights import GoldFound, fit_weights
from ..tuning.nil import NilThreshold, Outcomes, Target, tune_threshold
from ..tuning.resampling import Elsewhere, Interval, nil_elsewhere, recall_interval
from ..tuning.tuned import Tuned, TuningContext
from .default_weights import default_weights
from .finding import CanFind, find_for
from .names_as_mentions import find_for_names
from .notices import warn_if_not_in_force


class CanBeTuned(CanLink, CanFind, Protocol):
    """What is tuned: it ranks, and keeps what was tuned."""

    name: str
    tuned: Tuned

    @property
    def name_weights(self) -> NameWeights | None: ...


class TunedNames(NamedTuple):
    """What `tune_names` has found.

    Attributes:
        weights: What names count beside the similarity of vectors.
        default: What they count by default.
        before: The measures (see `link_metrics`) of vectors alone, on the mentions that were tuned on.
        by_default: Those under the default weights.
        after: Those under `weights`.
        recall: Recall@1 under `weights`, where the documents are drawn again and again.
        dropped: The NIL threshold that was dropped, since scores are others now; None without one.
        too_few: A sentence that says what was too little; None for enough.
    """

    weights: NameWeights
    default: NameWeights
    before: dict[str, Any]
    by_default: dict[str, Any]
    after: dict[str, Any]
    recall: Interval | None
    dropped: float | None
    too_few: str | None


class TunedNil(NamedTuple):
    """What `tune_nil` has found.

    Attributes:
        nil: The threshold and what it reaches on the mentions that were tuned on.
        decision: From all that a search says of a mention to probabilities; None where the score alone decides.
        calibration: From scores to probabilities, which count where there is no `decision`.
        link_ece: The expected calibration error of the probabilities.
        elsewhere: The F1 of the NIL class on other documents; None where there are too few mentions to tell, or too few
            draws of them reach the target.
        by_score: The same where the score alone decides.
        too_few: A sentence that says what was too little; None for enough.
    """

    nil: NilThreshold
    decision: Decision | None
    calibration: Calibration
    link_ece: float | None
    elsewhere: Interval | None
    by_score: Interval | None
    too_few: str | None


def tune_to_kb(
    linker: CanBeTuned, *, texts: Iterable[Doc] = (), seed: int = 0, progress: bool = False
) -> tuple[TunedNames, TunedNil]:
    """Tune a linker without annotated mentions: the weights of names and the NIL threshold, fitted to names of its own
    KB (see `find_for_names`), which is searched once.

    Args:
        linker: With its KB, indexed.
        texts: Unannotated Docs to place the names into; without any they stand alone.
        seed: Of the draw of names.
        progress: Whether to show a bar.

    Raises:
        PelError: Without a KB and its index; for a KB with too few names. The linker is as it was then.
    """
    found = find_for_names(linker, texts=texts, seed=seed, progress=progress)
    groups, before = range(len(found)), linker.tuned
    try:
        names = _tune_names(linker, found, groups, or_names=False)
        return names, _tune_nil(linker, _ranked(linker, found), groups, None, or_names=False)
    except PelError:
        linker.tuned = before
        raise


def tune_names(
    linker: CanBeTuned,
    docs: Iterable[Doc] | None = None,
    *,
    texts: Iterable[Doc] = (),
    seed: int = 0,
    progress: bool = False,
) -> TunedNames:
    """See `PelLinker.tune_names`.

    Args:
        linker: With its KB, indexed.
        docs: Docs with gold mentions; None: names of the KB, as for `tune_to_kb`.
        texts: As for `tune_to_kb`.
        seed: As for `tune_to_kb`.
        progress: Whether to show a bar.
    """
    if docs is None:
        found = find_for_names(linker, texts=texts, seed=seed, progress=progress)
        return _tune_names(linker, found, range(len(found)), or_names=False)
    found = find_for_gold(linker, docs, progress=progress)
    return _tune_names(linker, found, [id(one.mention.span.doc) for one in found])


def find_for_gold(linker: CanBeTuned, docs: Iterable[Doc], *, progress: bool = False) -> list[GoldFound]:
    """What `find_for` finds for the annotated mentions of `docs`."""
    mentions = annotated_of(docs, linker.kb, linker.settings.labels_discard)
    return find_for(linker, mentions, resolve_abbreviations=linker.settings.resolve_abbreviations, progress=progress)


def tune_nil(
    linker: CanBeTuned,
    docs: Iterable[Doc] | None = None,
    *,
    target: Target | str | None = None,
    by_score: bool = False,
    texts: Iterable[Doc] = (),
    seed: int = 0,
    progress: bool = False,
) -> TunedNil:
    """See `PelLinker.tune_nil`. target: a `Target`, or a text for it. by_score: whether the best score decides alone,
    whatever else would be better. The others are as for `tune_names`."""
    wanted = Target.of(target)
    if docs is None:
        found = find_for_names(linker, texts=texts, seed=seed, progress=progress)
        return _tune_nil(linker, _ranked(linker, found), range(len(found)), wanted, or_names=False)
    mentions = annotated_of(docs, linker.kb, linker.settings.labels_discard)
    found = find_mentions(lambda spans: linker.find(spans, 1), mentions, progress=progress)
    ranked = [RankedMention(one.mention.ids, one.found.ranked, one.mention.form) for one in found]
    evidence = None if by_score else evidence_of([one.found for one in found])
    groups = [id(mention.span.doc) for mention in mentions]
    return _tune_nil(linker, ranked, groups, wanted, evidence)


def _ranked(linker: CanBeTuned, found: Sequence[GoldFound]) -> list[RankedMention]:
    """As the linker ranks them now."""
    weights = linker.name_weights or NO_NAMES
    return [one.ranked(weights) for one in found]


def _tune_names(
    linker: CanBeTuned, found: Sequence[GoldFound], groups: Sequence[int], *, or_names: bool = True
) -> TunedNames:
    """Fit and keep weights of names; `groups` (n,) says which document each mention is of. or_names: whether names of
    the KB could stand for the mentions."""
    default = default_weights(linker) or DEFAULT
    weights = fit_weights(found, prior=default)
    before, by_default, after = ([one.ranked(own) for one in found] for own in (NO_NAMES, default, weights))
    outcomes = Outcomes.of(after, linker.kb)
    hits, in_kb = outcomes.rank == 1, ~outcomes.nil
    recall = recall_interval(hits[in_kb], np.array(groups)[in_kb].tolist())
    in_force = linker.settings.lexical == "tuned"  # else scores stay the same
    dropped = linker.tuned.nil_threshold if in_force else None
    linker.tuned = replace(
        linker.tuned.without_nil() if in_force else linker.tuned,
        name_weights=weights,
        names_context=TuningContext.of_linker(linker, weights),
    )
    warn_if_not_in_force(linker.name, "lexical", linker.settings.lexical)
    return TunedNames(
        weights=weights,
        default=default,
        before=link_metrics(before, linker.kb),
        by_default=link_metrics(by_default, linker.kb),
        after=link_metrics(after, linker.kb),
        recall=recall,
        dropped=dropped,
        too_few=few_for_weights(int(in_kb.sum()), or_names=or_names),
    )


def _tune_nil(
    linker: CanBeTuned,
    ranked: Sequence[RankedMention],
    groups: Sequence[int],
    target: Target | None,
    evidence: np.ndarray | None = None,
    *,
    or_names: bool = True,
) -> TunedNil:
    """Fit and keep a threshold and probabilities. What decides is the score alone, or all the `evidence` (n, e) where
    that has the better average precision of NIL on other documents, or reaches the `target` alone; `groups` (n,) says
    which document each annotated mention is of. or_names: as for `_tune_names`."""
    nil, calibration = tune_threshold(ranked, linker.kb), fit_ranked(ranked)
    ranked = [one._replace(probability=calibration.probability(one.top_score)) for one in ranked]
    outcomes = Outcomes.of(ranked, linker.kb)
    by_score = nil_elsewhere(outcomes, groups, target)
    too_few = few_for_threshold(nil.n_nil, nil.n_mentions - nil.n_nil, or_names=or_names)
    ways = [_Way(ranked, None, by_score)]
    if evidence is not None and by_score is not None and too_few is None:
        deciding = Deciding(outcomes, evidence)
        by_all = nil_elsewhere(outcomes, groups, target, fit=deciding.in_kb)
        if by_all is not None:
            fitted = deciding.fit()
            way = _Way(deciding.decided(ranked, fitted), fitted, by_all)
            ways = [way, *ways] if by_all.auprc > by_score.auprc else [*ways, way]
    (ranked, decision, elsewhere), nil = _first_to_reach(target, ways, linker.kb)
    linker.tuned = replace(
        linker.tuned,
        nil_threshold=nil.threshold,
        calibration=calibration,
        context=TuningContext.of_linker(linker, linker.name_weights),
        decision=decision,
    )
    warn_if_not_in_force(linker.name, "nil_threshold", linker.settings.nil_threshold)
    link_ece = calibration_metrics(ranked)["link_ece"]
    f1, f1_by_score = elsewhere and elsewhere.f1, by_score and by_score.f1
    return TunedNil(nil, decision, calibration, link_ece, f1, f1_by_score, too_few)


class _Way(NamedTuple):
    """A way to tell NIL mentions: the mentions as it ranks them, what was fitted for it (None: the score decides), and
    how well it tells them on other documents."""

    ranked: list[RankedMention]
    decision: Decision | None
    elsewhere: Elsewhere | None


def _first_to_reach(target: Target | None, ways: Sequence[_Way], kb: Any) -> tuple[_Way, NilThreshold]:
    """The first of `ways` for which a threshold reaches `target`, and that threshold.

    Raises:
        PelError: There is none, naming the nearest that the first can have.
    """
    for way in ways:
        with suppress(PelError):
            return way, tune_threshold(way.ranked, kb, target)
    return ways[0], tune_threshold(ways[0].ranked, kb, target)
