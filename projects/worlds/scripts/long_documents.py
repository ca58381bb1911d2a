"""Mentions a second of `nlp.pipe` on long documents, beside the same text and mentions in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Annotated

import spacy
import srsly
import typer
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_pel.corpora.docbin import read_docs


def main(
    pipeline: Annotated[Path, typer.Argument(help="With a pel_linker and its KB")],
    corpus: Annotated[Path, typer.Argument(help="Long documents, with entities")],
    output: Annotated[Path, typer.Argument(help="JSON file of measures")],
    tokens: Annotated[int, typer.Option(help="Of a piece: as an abstract has")] = 300,
    limit: Annotated[int, typer.Option(help="Documents; 0: all")] = 0,
    times: Annotated[int, typer.Option(help="The median of so many runs, by turns")] = 3,
) -> None:
    """Link both. Seconds are of the processor. The windows around mentions near the end of a piece are shorter, so that
    the encoder reads a little less there."""
    nlp = spacy.load(pipeline)
    long = list(read_docs(corpus, nlp.vocab))[: limit or None]
    texts = {"long": long, "pieces": [piece for doc in long for piece in pieces(doc, tokens)]}
    n_mentions = {name: sum(len(doc.ents) for doc in docs) for name, docs in texts.items()}
    if len(set(n_mentions.values())) > 1:
        raise ValueError(f"the pieces have other mentions than the documents: {n_mentions}")
    seconds: dict[str, list[float]] = {name: [] for name in texts}
    run(nlp, texts["pieces"][:10])
    for _ in range(times):
        for name, docs in texts.items():
            seconds[name].append(run(nlp, docs))
    values: dict[str, float] = {"n_mentions": n_mentions["long"]}
    for name, docs in texts.items():
        values[f"{name}: tokens of a document"] = sum(map(len, docs)) / len(docs)
        values[f"{name}: mentions a second"] = n_mentions[name] / median(seconds[name])
    values["long / pieces"] = median(seconds["pieces"]) / median(seconds["long"])
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, values)
    typer.echo(f"{output}: " + ", ".join(f"{key} {value:,.3f}" for key, value in values.items()))


def pieces(doc: Doc, tokens: int) -> Iterator[Doc]:
    """Parts of `doc` of about so many tokens, with their entities, none of which is cut."""
    start = 0
    while start < len(doc):
        end = min(start + tokens, len(doc))
        while end < len(doc) and doc[end].ent_iob_ == "I":
            end += 1
        yield doc[start:end].as_doc()
        start = end


def run(nlp: Language, docs: list[Doc]) -> float:
    """Link copies of `docs`, and return how many seconds that took."""
    copies = [with_entities(doc) for doc in docs]
    start = process_time()
    for _ in nlp.pipe(copies):
        pass
    return process_time() - start


def with_entities(doc: Doc) -> Doc:
    """A new Doc with the words and the entities of `doc`, and nothing else."""
    new = Doc(doc.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])
    new.set_ents([Span(new, ent.start, ent.end, label=ent.label) for ent in doc.ents], default="outside")
    return new


if __name__ == "__main__":
    typer.run(main)
