"""Baselines without training, by surface form alone: exact alias match and TF-IDF of scispaCy's kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from sklearn.feature_extraction.text import TfidfVectorizer
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.mentions.gold import GoldMention, ambiguous_forms, gold_mentions
from spacy_pel.mentions.ranked import RankedMention
from spacy_pel.tuning.nil import tune_threshold

Candidates = list[tuple[str, float]]
Ranker = Callable[[Sequence[str]], list[Candidates]]


def main(
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions: a PubTator file")],
    output: Annotated[Path, typer.Argument(help="Folder for baseline-<name>.json")],
    train: Annotated[Path | None, typer.Option(help="Training corpus: tells seen ids, ambiguous forms")] = None,
    tune: Annotated[Path | None, typer.Option(help="Corpus on which each baseline's NIL threshold is tuned")] = None,
    k: Annotated[int, typer.Option(help="Candidates a mention")] = 64,
    scispacy: Annotated[bool, typer.Option("--scispacy", help="scispaCy's own generator on a part of the KB")] = False,
    subset: Annotated[int, typer.Option(help="Entities in that part: the gold ones and seeded others; 0: all")] = 5000,
    seed: Annotated[int, typer.Option(help="Of the draw of the part")] = 0,
) -> None:
    """Write one JSON of measures per baseline, with the keys of `python -m spacy pel evaluate`.

    With --scispacy the two rows are scispaCy's generator and TF-IDF by exact search, both over the same part of the KB.
    """
    entities = list(KnowledgeBase(kb_path).entities())
    mentions = read_mentions(corpus)
    tuning = read_mentions(tune) if tune else []
    known: dict[str, Any] = {}
    if train:
        learnt = read_mentions(train)
        known["train_ids"] = {i for m in learnt for i in m.ids}
        known["ambiguous_forms"] = ambiguous_forms([*learnt, *mentions])
    rankers: dict[str, Callable[[], Ranker]]
    if scispacy:
        from scispacy_generator import scispacy_ranker

        entities = draw(entities, {i for m in mentions for i in m.ids}, subset, seed)
        rankers = {
            f"scispacy-{len(entities)}": lambda: scispacy_ranker(entities, k),
            f"tfidf-{len(entities)}": lambda: tfidf_ranker(entities, k),
        }
    else:
        rankers = {"exact-alias": lambda: exact_ranker(entities, k), "tfidf": lambda: tfidf_ranker(entities, k)}
    for name, build in rankers.items():
        began = time.perf_counter()
        ranked = rank(build(), [*tuning, *mentions])
        ids = {e.id for e in entities}
        threshold = tune_threshold(ranked[: len(tuning)], ids).threshold if tuning else None
        values: dict[str, Any] = link_metrics(ranked[len(tuning) :], ids, nil_threshold=threshold, **known)
        output.mkdir(parents=True, exist_ok=True)
        srsly.write_json(output / f"baseline-{name}.json", values)
        typer.echo(f"{name}: {values['n_mentions']:,} mentions in {time.perf_counter() - began:.0f} s")


def read_mentions(path: Path) -> list[GoldMention]:
    """The gold mentions of a PubTator file, exactly as annotated: with one token a character nothing is widened."""
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, words=list(text), spaces=[False] * len(text))
    return [mention for doc in PubTatorReader(path, nlp) for mention in gold_mentions(doc)]


def rank(ranker: Ranker, mentions: Sequence[GoldMention]) -> list[RankedMention]:
    """Candidates for every mention; a string that occurs many times is ranked once."""
    texts = sorted({mention.span.text for mention in mentions})
    found = dict(zip(texts, ranker(texts), strict=True))
    return [RankedMention(mention.ids, found[mention.span.text], mention.form) for mention in mentions]


def names(entity: Entity) -> Iterator[str]:
    """The name and the aliases, each once."""
    yield from dict.fromkeys((entity.name, *entity.aliases))


def draw(entities: Sequence[Entity], gold: set[str], size: int, seed: int) -> list[Entity]:
    """The gold entities and a seeded draw of others, `size` in all, in the order of the KB."""
    kept = [row for row, entity in enumerate(entities) if entity.id in gold]
    others = [row for row, entity in enumerate(entities) if entity.id not in gold]
    n = min(len(others), max(0, size - len(kept))) if size else len(others)
    drawn = np.random.default_rng(seed).choice(len(others), n, replace=False)
    return [entities[row] for row in sorted([*kept, *(others[i] for i in drawn)])]


def exact_ranker(entities: Sequence[Entity], k: int) -> Ranker:
    """Entities that have the mention as a name, case ignored; the first of the KB first."""
    ids: dict[str, dict[str, float]] = {}
    for entity in entities:
        for name in names(entity):
            ids.setdefault(name.casefold(), {}).setdefault(entity.id, 1.0)
    return lambda texts: [list(ids.get(text.casefold(), {}).items())[:k] for text in texts]


def tfidf_ranker(entities: Sequence[Entity], k: int, batch: int = 32) -> Ranker:
    """Cosine of TF-IDF vectors of character 3-grams, with scispaCy's settings but searched exactly.

    The vectoriser is fitted on the distinct names of the KB. An entity scores as its best name; ties go to the first
    of the KB; entities that share no 3-gram with the mention are no candidates.
    """
    rows: dict[str, int] = {}
    pairs = [[rows.setdefault(name, len(rows)) for name in names(entity)] for entity in entities]
    min_df = 10 if len(rows) >= 1000 else 1  # scispaCy's 10 leaves nothing of a toy vocabulary
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), min_df=min_df, dtype=np.float32)
    vectors = vectorizer.fit_transform(list(rows))[np.concatenate(pairs)].T.tocsr()
    starts = np.cumsum([0, *(len(pair) for pair in pairs[:-1])])

    def ranker(texts: Sequence[str]) -> list[Candidates]:
        queries = vectorizer.transform(texts)
        found: list[Candidates] = []
        for start in tqdm(range(0, len(texts), batch), desc="tfidf", unit="batch"):
            by_name = (queries[start : start + batch] @ vectors).toarray()
            found.extend(best(scores) for scores in np.maximum.reduceat(by_name, starts, axis=1))
        return found

    def best(scores: np.ndarray) -> Candidates:
        last = np.partition(scores, -k)[-k] if k < len(scores) else 0.0
        rows = np.flatnonzero((scores >= last) & (scores > 0))
        rows = rows[np.argsort(-scores[rows], kind="stable")[:k]]
        return [(entities[row].id, float(scores[row])) for row in rows]

    return ranker


if __name__ == "__main__":
    typer.run(main)
