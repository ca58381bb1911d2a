"""Keep the gold mentions that can be trained on: those with an id in the KB, since no other mention gives a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions


def main(
    corpus: Annotated[Path, typer.Argument(help="A .spacy file of `convert`")],
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    output: Annotated[Path, typer.Argument(help="The .spacy file to train on")],
) -> None:
    """Write the documents of CORPUS with those of their gold mentions that have an id in the KB."""
    docs = [(doc, gold_mentions(doc)) for doc in read_docs(corpus, spacy.blank("en").vocab)]
    known = KnowledgeBase(kb_path).rows({i for _, mentions in docs for mention in mentions for i in mention.ids})
    n_kept = 0
    for doc, mentions in docs:
        trainable = [mention.span for mention in mentions if not known.keys().isdisjoint(mention.ids)]
        doc.spans[GOLD_GROUP] = trainable
        n_kept += len(trainable)
    if not n_kept:
        typer.secho(f"✘ no gold id of {corpus} is in {kb_path}: there is nothing to train on", fg="red", err=True)
        raise typer.Exit(1)
    write_docs(output, (doc for doc, _ in docs))
    n_mentions = sum(len(mentions) for _, mentions in docs)
    typer.echo(f"{output}: {n_kept:,} of {n_mentions:,} mentions have an id in {kb_path}")


if __name__ == "__main__":
    typer.run(main)
