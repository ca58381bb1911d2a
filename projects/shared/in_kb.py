"""Keep the gold mentions that can be trained on: those with an id in the KB, since no other mention gives a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions, with_successors


def main(
    corpus: Annotated[Path, typer.Argument(help="A .spacy file of `convert`")],
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    output: Annotated[Path, typer.Argument(help="The .spacy file to train on")],
    rest: Annotated[Path | None, typer.Option(help="Write the documents with their other mentions here")] = None,
) -> None:
    """Write the documents of CORPUS with those of their gold mentions that have an id in the KB, or one that has become
    one of these."""
    kb = KnowledgeBase(kb_path)
    docs = [(doc, with_successors(gold_mentions(doc), kb)) for doc in read_docs(corpus, spacy.blank("en").vocab)]
    known = kb.rows({i for _, mentions in docs for mention in mentions for i in mention.ids})
    if not known:
        typer.secho(f"✘ no gold id of {corpus} is in {kb_path}: there is nothing to train on", fg="red", err=True)
        raise typer.Exit(1)
    for path, wanted in ((output, True), (rest, False)):
        if path is None:
            continue
        for doc, mentions in docs:
            doc.spans[GOLD_GROUP] = [m.span for m in mentions if known.keys().isdisjoint(m.ids) != wanted]
        write_docs(path, (doc for doc, _ in docs))
        n_kept = sum(len(doc.spans[GOLD_GROUP]) for doc, _ in docs)
        n_mentions = sum(len(mentions) for _, mentions in docs)
        has = "have" if wanted else "lack"
        typer.echo(f"{path}: {n_kept:,} of {n_mentions:,} mentions {has} an id in {kb_path}")


if __name__ == "__main__":
    typer.run(main)
