"""A linker tuned on annotated Docs: what names count, the NIL threshold, probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from spacy.tokens import Doc
from thinc.api import Model
from tqdm import tqdm

from ..evaluation.metrics import link_metrics
from ..evaluation.ranking import CHUNK, CanRank, rank_gold
from ..mentions.gold import gold_of
from ..search.find import Reading, find_forms
from ..search.weights import NO_NAMES, NameWeights
from ..tuning.calibration import Calibration, calibration_metrics, fit_ranked
from ..tuning.name_weights import GoldForms, fit_weights
from ..tuning.nil import NilThreshold, Target, tune_threshold
from ..tuning.tuned import Tuned, TuningContext
from .indexing import search_of
from .notices import warn_if_not_in_force
from .settings import LinkSettings


class CanBeTuned(CanRank, Protocol):
    """What is tuned: it ranks, and keeps what was tuned."""

    name: str
    model: Model
    settings: LinkSettings
    tuned: Tuned

    @property
    def fingerprints(self) -> dict[str, str]: ...

    @property
    def name_weights(self) -> NameWeights | None: ...


class TunedNames(NamedTuple):
    """What `tune_names` has found.

    Attributes:
        weights: What names count beside the similarity of vectors.
        before: The measures (see `link_metrics`) of vectors alone, on the mentions that were tuned on.
        after: Those with names.
        dropped: The NIL threshold that was dropped, since scores are others now; None without one.
    """

    weights: NameWeights
    before: dict[str, Any]
    after: dict[str, Any]
    dropped: float | None


class TunedNil(NamedTuple):
    """What `tune_nil` has found.

    Attributes:
        nil: The threshold and what it reaches on the mentions that were tuned on.
        calibration: From scores to probabilities.
        link_ece: The expected calibration error of these.
    """

    nil: NilThreshold
    calibration: Calibration
    link_ece: float | None


def tune_names(linker: CanBeTuned, docs: Iterable[Doc], *, progress: bool = False) -> TunedNames:
    """See `PelLinker.tune_names`."""
    found = find_for_gold(linker, docs, progress=progress)
    weights = fit_weights(found)
    before, after = (link_metrics([one.ranked(own) for one in found], linker.kb) for own in (NO_NAMES, weights))
    dropped = linker.tuned.nil_threshold if linker.settings.lexical == "tuned" else None  # else scores stay the same
    kept = linker.tuned.without_nil() if linker.settings.lexical == "tuned" else linker.tuned
    linker.tuned = replace(kept, name_weights=weights)
    warn_if_not_in_force(linker.name, "lexical", linker.settings.lexical)
    return TunedNames(weights, before, after, dropped)


def find_for_gold(linker: CanBeTuned, docs: Iterable[Doc], *, progress: bool = False) -> list[GoldForms]:
    """All that a search by vectors and by names finds for the annotated mentions of `docs`, as the linker reads them,
    among the entities of the types that it allows.

    Raises:
        PelError: Without a KB and its index, and for a KB of format 2, whose names have no index.
    """
    mentions = [mention for mention in gold_of(docs, linker.kb) if mention.ids]
    settings = linker.settings
    reading = Reading(settings.top_k, None, settings.types_for, settings.resolve_abbreviations)
    search = search_of(linker.kb, linker.fingerprints, NO_NAMES, settings, compare_names=True)
    found: list[GoldForms] = []
    with tqdm(total=len(mentions), desc="Searching", unit=" mentions", disable=None if progress else True) as bar:
        for start in range(0, len(mentions), CHUNK):
            chunk = mentions[start : start + CHUNK]
            forms = find_forms(linker.model, linker.kb, search, [mention.span for mention in chunk], reading)
            found += map(GoldForms, chunk, forms)
            bar.update(len(chunk))
    return found


def tune_nil(
    linker: CanBeTuned, docs: Iterable[Doc], *, target: Target | str | None = None, progress: bool = False
) -> TunedNil:
    """See `PelLinker.tune_nil`."""
    wanted = Target.of(target)
    ranked = rank_gold(linker, docs, k=1, progress=progress)
    nil, calibration = tune_threshold(ranked, linker.kb, wanted), fit_ranked(ranked)
    context = TuningContext.of(linker.kb, linker.name_weights, linker.settings.vectors)
    linker.tuned = replace(linker.tuned, nil_threshold=nil.threshold, calibration=calibration, context=context)
    warn_if_not_in_force(linker.name, "nil_threshold", linker.settings.nil_threshold)
    return TunedNil(nil, calibration, calibration_metrics(ranked, calibration)["link_ece"])
