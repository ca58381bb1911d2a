"""Mentions linked a second, from Docs with mentions to Docs with links: one linker, or scispaCy's candidate generator.

Every call is a process of its own, so that its peak of memory and its time to load are its own.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Annotated

import spacy
import srsly
import typer
from baseline_scispacy import ScispacyGenerator, draw
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_pel.components import find_linker
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.baselines import measure, string_mentions
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.kb.knowledge_base import KnowledgeBase

WARM_UP, ONE_BY_ONE = 0.02, 0.1  # of the documents
DEPTH = 64
MEASURED = ("recall_at_1", "recall_at_64", "n_mentions")

app = typer.Typer(help=__doc__)
Corpus = Annotated[Path, typer.Argument(help="Gold mentions, which recall is measured on")]
Output = Annotated[Path, typer.Argument(help="JSON file of measures")]
More = Annotated[list[Path] | None, typer.Option(help="More Docs with mentions, which are linked for the time too")]


@app.command()
def linker(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    corpus: Corpus,
    output: Output,
    more: More = None,
    names: Annotated[bool, typer.Option(help="Whether names count, as they were tuned")] = True,
    abbreviations: Annotated[bool, typer.Option(help="Whether long forms of abbreviations are read")] = True,
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or int8")] = "auto",
) -> None:
    """Measure a linker through `nlp.pipe`."""
    start = perf_counter()
    nlp = spacy.load(pipeline, config={"components": {"pel_linker": {"model": {"precision": precision}}}})
    loaded = perf_counter() - start
    _, component = find_linker(nlp)
    component.resolve_abbreviations = abbreviations
    if not names:
        component.lexical = None
    gold = list(read_docs(corpus, nlp.vocab))
    docs = [*gold, *(doc for path in more or () for doc in read_docs(path, nlp.vocab))]
    values = {
        **rates(docs, lambda some: list(tqdm(nlp.pipe(some), total=len(some), disable=len(some) == 1))),
        "seconds_to_load": loaded,
        "peak_mb": peak_mb(),
    }
    found = evaluate(nlp, gold, progress=True)
    write(output, values | {key: found[key] for key in MEASURED}, docs)


@app.command()
def scispacy(
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    corpus: Corpus,
    output: Output,
    more: More = None,
    subset: Annotated[int, typer.Option(help="Entities: the gold ones and a seeded draw of others; 0: all")] = 5000,
    neighbours: Annotated[int, typer.Option(help="Names searched for; its linker asks for 30")] = 30,
) -> None:
    """Measure scispaCy's generator: texts of mentions in, candidates out, without reading Docs or writing links."""
    kb, vocab = KnowledgeBase(kb_path), spacy.blank("en").vocab
    docs = [*read_docs(corpus, vocab), *(doc for path in more or () for doc in read_docs(path, vocab))]
    mentions = string_mentions(read_docs(corpus, vocab), kb)
    entities = draw(list(kb.entities()), {id_ for mention in mentions for id_ in mention.gold.ids}, subset, 0)
    start = perf_counter()
    generator = ScispacyGenerator(entities)
    built = perf_counter() - start
    generator.neighbours = neighbours
    values = {
        **rates(docs, lambda some: generator.search(texts_of(some), DEPTH)),
        "seconds_to_build": built,
        "n_entities": len(entities),
        "peak_mb": peak_mb(),
    }
    found = measure(generator, mentions, {entity.id for entity in entities})
    write(output, values | {key: found[key] for key in MEASURED}, docs)


def texts_of(docs: list[Doc]) -> list[str]:
    """The texts of all mentions."""
    return [ent.text for doc in docs for ent in doc.ents]


def rates(docs: list[Doc], link: Callable[[list[Doc]], object]) -> dict[str, float]:
    """Mentions a second, of documents one at a time and of many. None is linked twice, as a linker remembers names."""
    copies = [doc.copy() for doc in docs if doc.ents]
    first, end = ceil(WARM_UP * len(copies)), ceil((WARM_UP + ONE_BY_ONE) * len(copies))
    singles, many = copies[first:end], copies[end:]
    link(copies[:first])
    return {
        "one_document_at_a_time": rate(singles, lambda: [link([doc]) for doc in tqdm(singles, desc="One at a time")]),
        "mentions_per_second": rate(many, lambda: link(many)),
    }


def rate(docs: list[Doc], link: Callable[[], object]) -> float:
    """Mentions of `docs` a second."""
    start = perf_counter()
    link()
    return sum(len(doc.ents) for doc in docs) / (perf_counter() - start)


def peak_mb() -> float:
    """Of this process so far, mapped files counted."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(output: Path, values: dict[str, float], docs: list[Doc]) -> None:
    """Write and print the measures."""
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, values | {"n_docs": len(docs)})
    typer.echo(f"{output}: " + ", ".join(f"{key} {value:,.4g}" for key, value in values.items()))


if __name__ == "__main__":
    app()
