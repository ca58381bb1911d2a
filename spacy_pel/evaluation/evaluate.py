"""How well a pipeline links the gold mentions of a corpus: all measures in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from ..components import find_linker, read_upstream
from ..errors import PelError
from ..kb.entity import NIL
from ..mentions.gold import docs_given, gold_of, searched
from ..mentions.ranked import RankedMention
from ..tuning.calibration import calibration_metrics
from ..tuning.nil import nil_curve
from ..tuning.tuned import Tuned
from .end_to_end import end_to_end
from .metrics import MIN_DEPTH, link_metrics, seen_and_ambiguous
from .ranking import CanLink, rank_mentions
from .reranked import with_ranker


class Linker(CanLink, Protocol):
    """What can be measured."""

    model: Model
    tuned: Tuned

    @property
    def threshold(self) -> float | None: ...


class Evaluation(NamedTuple):
    """What was measured, and on what.

    Attributes:
        ranked: The gold mentions with their candidates.
        metrics: The measures, by name.
    """

    ranked: list[RankedMention]
    metrics: dict[str, Any]


def evaluate(
    nlp: Language,
    docs: Iterable[Doc],
    *,
    train: Iterable[Doc] | None = None,
    with_end_to_end: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Link the gold mentions of `docs` and measure: recall@k, MRR, NIL, probabilities, speed.

    Args:
        nlp: A pipeline with one `pel_linker` and its KB; where a `pel_ranker` is behind it, both are measured.
        docs: Docs with gold mentions.
        train: The training Docs, which tell seen ids and ambiguous forms.
        with_end_to_end: Whether to run the pipeline on the texts too, and score the mentions that it finds.
        progress: Whether to show a bar.

    Returns:
        The measures of `link_metrics`, `calibration_metrics` and `end_to_end`, `nil_curve`, `mentions_per_second`,
        `n_gold_ids` and `n_gold_ids_missing` (distinct gold ids, and those that the KB lacks). Fractions; None for one
        with nothing to measure.

    Raises:
        PelError: Unless the pipeline has one `pel_linker` with a KB, and a Doc an annotated mention.
    """
    _, linker = find_linker(nlp)
    docs = read_upstream(nlp, docs_given(docs))
    metrics = measure(with_ranker(nlp, linker), docs, train=train, progress=progress).metrics
    if with_end_to_end:
        metrics |= end_to_end(nlp, docs, linker.kb, linker.settings.spans_key)
    return metrics


def measure(
    linker: Linker, docs: Sequence[Doc], *, train: Iterable[Doc] | None = None, progress: bool = False
) -> Evaluation:
    """`evaluate` for a linker alone."""
    kb = linker.kb
    mentions = gold_of(docs, kb)
    gold_ids = {id_ for mention in mentions for id_ in mention.ids}
    if not gold_ids:
        raise PelError("the corpus has no annotated mention: there is nothing to measure")
    known = {} if train is None else seen_and_ambiguous(mentions, gold_of(train, kb))
    start = perf_counter()
    ranked = rank_mentions(linker, mentions, max(MIN_DEPTH, linker.settings.top_k), progress=progress)
    seconds = perf_counter() - start
    metrics = link_metrics(ranked, kb, nil_threshold=linker.threshold, as_linked=True, **known)
    metrics["mentions_per_second"] = metrics["n_mentions"] / seconds
    metrics["n_gold_ids"] = len(gold_ids - {NIL})
    metrics["n_gold_ids_missing"] = sum(id_ not in kb for id_ in gold_ids - {NIL})
    metrics |= {"link_ece": None, "score_ece": None, "reliability": [], "nil_curve": nil_curve(ranked, kb)}
    if linker.tuned.gives_probabilities:
        discarded = linker.settings.labels_discard
        metrics |= calibration_metrics(
            [own for own, one in zip(ranked, mentions, strict=True) if searched(one, discarded)]
        )
        if linker.model.attrs["settings"]["similarity"] == "dot":
            metrics["score_ece"] = None  # a dot product is nothing like a probability
    return Evaluation(ranked, metrics)
