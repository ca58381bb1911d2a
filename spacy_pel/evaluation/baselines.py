"""Baselines by strings alone, without training: exact alias match and TF-IDF, measured as a linker is."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from spacy.tokens import Doc
from tqdm import tqdm

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from ..mentions.abbreviations import long_forms
from ..mentions.gold import GoldMention, gold_of
from ..mentions.other_names import other_names
from ..mentions.ranked import RankedMention
from ..tuning.nil import tune_threshold
from .metrics import MIN_DEPTH, link_metrics, seen_and_ambiguous

LARGE = 1000  # names of a KB from which on rare 3-grams are dropped
RARE = 10  # names that must have a 3-gram there: scispaCy's value

Candidates = list[tuple[str, float]]


class NameSearch(Protocol):
    """Finds entities by a string."""

    def search(self, texts: Sequence[str], k: int) -> list[Candidates]:
        """Return for each text at most `k` entities as (id, score), best first."""
        ...


class StringMention(NamedTuple):
    """A gold mention as baselines read it.

    Attributes:
        gold: The mention.
        other_texts: What the document gives for its text: its long form, its other name in brackets.
    """

    gold: GoldMention
    other_texts: tuple[str, ...] = ()

    def texts(self, with_long_forms: bool) -> list[str]:
        """What is looked up: `with_long_forms` first what the document gives for its text; then the text."""
        return [*(self.other_texts if with_long_forms else ()), self.gold.span.text]


class ExactAlias:
    """Finds the entities that have the text as a name or alias, case ignored; of several the first of the KB first."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._ids: dict[str, dict[str, None]] = {}
        for entity in entities:
            for name in names(entity):
                self._ids.setdefault(name.casefold(), {})[entity.id] = None

    def search(self, texts: Sequence[str], k: int) -> list[Candidates]:
        """Return the entities with that name; each scores 1."""
        return [[(id_, 1.0) for id_ in self._ids.get(text.casefold(), ())][:k] for text in texts]


class Tfidf:
    """Finds entities by the cosine of TF-IDF vectors of character 3-grams: scispaCy's settings, exact search.

    The vectorizer is fitted on the distinct names. An entity has the score of its best name. Ties go to the first of
    the KB. An entity that shares no 3-gram with the text is no candidate.

    Args:
        entities: The entities, in the order of the KB.
        progress: Whether `search` shows a bar, if standard error is a terminal.
        batch: Texts that are compared with all names at once.

    Raises:
        PelError: If scikit-learn is not installed, or there is no entity.
    """

    def __init__(self, entities: Iterable[Entity], *, progress: bool = False, batch: int = 32) -> None:
        require_sklearn()
        from sklearn.feature_extraction.text import TfidfVectorizer

        numbers: dict[str, int] = {}
        own: list[list[int]] = []
        self._ids: list[str] = []
        for entity in entities:
            self._ids.append(entity.id)
            own.append([numbers.setdefault(name, len(numbers)) for name in names(entity)])
        if not own:
            raise PelError("TF-IDF needs at least one entity; the KB has none.")
        min_df = RARE if len(numbers) >= LARGE else 1  # a toy KB would have no 3-gram left
        self._vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), min_df=min_df, dtype=np.float32)
        try:
            vectors = self._vectorizer.fit_transform(list(numbers))
        except ValueError:  # none is in so many names, as where these have two characters each
            vectors = self._vectorizer.set_params(min_df=1).fit_transform(list(numbers))
        self._vectors = vectors[np.concatenate(own)].T.tocsr()
        self._starts = np.cumsum([0, *(len(of_entity) for of_entity in own[:-1])])
        self._progress, self._batch = progress, batch

    def search(self, texts: Sequence[str], k: int) -> list[Candidates]:
        """Return the entities with the most similar names; the score is the cosine."""
        queries = self._vectorizer.transform(texts)
        found: list[Candidates] = []
        with tqdm(total=len(texts), desc="TF-IDF", unit=" texts", disable=None if self._progress else True) as bar:
            for start in range(0, len(texts), self._batch):
                by_name = (queries[start : start + self._batch] @ self._vectors).toarray()
                by_entity = np.maximum.reduceat(by_name, self._starts, axis=1)
                found.extend(self._best(scores, k) for scores in by_entity)
                bar.update(len(by_entity))
        return found

    def _best(self, scores: np.ndarray, k: int) -> Candidates:
        least = np.partition(scores, -k)[-k] if k < len(scores) else 0.0
        rows = np.flatnonzero((scores >= least) & (scores > 0))
        rows = rows[np.argsort(-scores[rows], kind="stable")[:k]]
        return [(self._ids[row], float(scores[row])) for row in rows]


def evaluate_baselines(
    kb: KnowledgeBase,
    docs: Iterable[Doc],
    *,
    train: Iterable[Doc] = (),
    tune: Iterable[Doc] = (),
    k: int = 64,
    progress: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure each baseline on gold mentions, with the measures of `link_metrics`.

    Args:
        kb: The KB; it needs no vectors.
        docs: The Docs whose gold mentions are ranked.
        train: Training Docs: they tell seen ids and ambiguous forms.
        tune: Docs on which each baseline gets a NIL threshold of its own.
        k: As for `measure`.
        progress: Whether to show bars, if standard error is a terminal.

    Yields:
        The name of a baseline (`exact-alias`, `tfidf`, `tfidf-long-forms`) and its measures, with
        `mentions_per_second`.

    Raises:
        PelError: If scikit-learn is not installed, or no mention is annotated.
    """
    require_sklearn()
    mentions, tuning = string_mentions(docs, kb), string_mentions(tune, kb)
    learnt = gold_of(train, kb)
    known = seen_and_ambiguous([mention.gold for mention in mentions], learnt) if learnt else {}
    exact, tfidf = ExactAlias(kb.entities()), Tfidf(kb.entities(), progress=progress)
    searches: tuple[tuple[str, NameSearch, bool], ...] = (
        ("exact-alias", exact, False),
        ("tfidf", tfidf, False),
        ("tfidf-long-forms", tfidf, True),
    )
    for name, search, with_long_forms in searches:
        yield name, measure(search, mentions, kb, tuning=tuning, k=k, with_long_forms=with_long_forms, **known)


def measure(
    search: NameSearch,
    mentions: Sequence[StringMention],
    kb_ids: Container[str],
    *,
    tuning: Sequence[StringMention] = (),
    k: int = 64,
    with_long_forms: bool = False,
    **known: Any,
) -> dict[str, Any]:
    """Rank `mentions` and measure the ranking.

    Args:
        search: The baseline.
        mentions: What is ranked and measured.
        kb_ids: The ids that can be found; a mention without any of them is NIL.
        tuning: Mentions on which the NIL threshold is tuned; without them there is none.
        k: Candidates a mention; 64 at least are searched, as recall@64 needs them.
        with_long_forms: Whether long forms, and other names in brackets, are looked up too.
        known: More arguments of `link_metrics`, as `seen_and_ambiguous` gives them.

    Returns:
        The measures of `link_metrics`, and `mentions_per_second`.

    Raises:
        PelError: If no mention is annotated, or `tuning` has no NIL mention or nothing else.
    """
    if not any(mention.gold.ids for mention in mentions):
        raise PelError("the corpus has no annotated mention: there is nothing to measure")
    threshold, k = None, max(MIN_DEPTH, k)
    if tuning:
        threshold = tune_threshold(rank_strings(search, tuning, k, with_long_forms), kb_ids).threshold
    start = perf_counter()
    ranked = rank_strings(search, mentions, k, with_long_forms)
    seconds = perf_counter() - start
    metrics = link_metrics(ranked, kb_ids, nil_threshold=threshold, **known)
    return metrics | {"mentions_per_second": len(ranked) / seconds}


def string_mentions(docs: Iterable[Doc], kb: KnowledgeBase) -> list[StringMention]:
    """Return the gold mentions of `docs`, with the long forms and the other names that each Doc gives for them; retired
    ids as their successors.

    An abbreviation has its long form where its whole span is the mention.
    """
    found = []
    for doc in docs:
        gold = gold_of([doc], kb)
        long, others = long_forms(doc), other_names(mention.span for mention in gold)
        for mention in gold:
            span = mention.span
            other = others.get((span.text, span.label_))
            given = [long.get((one.start, one.end), one).text for one in (span, other) if one is not None]
            found.append(StringMention(mention, tuple(text for text in dict.fromkeys(given) if text != span.text)))
    return found


def rank_strings(
    search: NameSearch, mentions: Sequence[StringMention], k: int, with_long_forms: bool = False
) -> list[RankedMention]:
    """Rank entities for each mention; a string that occurs many times is looked up once.

    With `with_long_forms`, the text, its long form and its other name are looked up, and the best score of each entity
    counts; of equal ones that of the long form comes first.
    """

    lookups = [mention.texts(with_long_forms) for mention in mentions]
    texts = sorted({text for own in lookups for text in own})
    found = dict(zip(texts, search.search(texts, k), strict=True)) if texts else {}
    return [
        RankedMention(gold.ids, merged([found[text] for text in own], k), gold.form)
        for (gold, _), own in zip(mentions, lookups, strict=True)
    ]


def merged(rankings: Sequence[Candidates], k: int) -> Candidates:
    """Return the `k` best entities of all `rankings`, each with its best score."""
    best: dict[str, float] = {}
    for id_, score in (pair for ranking in rankings for pair in ranking):
        best[id_] = max(score, best.get(id_, score))
    return sorted(best.items(), key=lambda pair: -pair[1])[:k]


def names(entity: Entity) -> Iterator[str]:
    """Yield the name and the aliases, each once."""
    yield from dict.fromkeys((entity.name, *entity.aliases))


def require_sklearn() -> None:
    """Raise `PelError` if scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise PelError('TF-IDF needs scikit-learn; run `pip install "spacy-pel[baselines]"`.') from error
