"""Keep the gold mentions that can be trained on: those with an id in the KB, since no other mention gives a loss."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Annotated

import spacy
import typer
from spacy.tokens import Span

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions, with_successors


def main(
    corpus: Annotated[Path, typer.Argument(help="A .spacy file of `convert`")],
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder of `build-kb`")],
    output: Annotated[Path, typer.Argument(help="The .spacy file to train on")],
    rest: Annotated[
        Path | None, typer.Option(help="Write the documents with those that have no id in the KB here")
    ] = None,
    mentions: Annotated[int, typer.Option(min=0, help="Keep so many of them, drawn; 0: all")] = 0,
    seed: Annotated[int, typer.Option(help="Of the draw")] = 0,
    drop_empty: Annotated[bool, typer.Option("--drop-empty", help="Leave out documents without a mention")] = False,
) -> None:
    """Write the documents of CORPUS with those of their gold mentions that have an id in the KB, or one that has become
    one of these; or with as many of them as are asked for, drawn."""
    kb = KnowledgeBase(kb_path)
    docs = [(doc, with_successors(gold_mentions(doc), kb)) for doc in read_docs(corpus, spacy.blank("en").vocab)]
    known = kb.rows({i for _, own in docs for mention in own for i in mention.ids})
    if not known:
        typer.secho(f"✘ no gold id of {corpus} is in {kb_path}: there is nothing to train on", fg="red", err=True)
        raise typer.Exit(1)
    for path, wanted in ((output, True), (rest, False)):
        if path is None:
            continue
        found = [[one.span for one in own if known.keys().isdisjoint(one.ids) != wanted] for _, own in docs]
        kept = drawn(found, mentions, seed) if wanted else found
        for (doc, _), spans in zip(docs, kept, strict=True):
            doc.spans[GOLD_GROUP] = spans
        write_docs(path, (doc for doc, _ in docs if doc.spans[GOLD_GROUP] or not drop_empty))
        n_kept, n_found, n_all = (sum(map(len, group)) for group in (kept, found, (own for _, own in docs)))
        has = "have" if wanted else "lack"
        typer.echo(f"{path}: {n_kept:,} mentions; {n_found:,} of {n_all:,} {has} an id in {kb_path}")


def drawn(spans: list[list[Span]], n: int, seed: int) -> list[list[Span]]:
    """`n` of the spans of all documents; all of them where there are no more, or where `n` is 0."""
    found = [(number, span) for number, own in enumerate(spans) for span in own]
    if not 0 < n < len(found):
        return spans
    chosen: list[list[Span]] = [[] for _ in spans]
    for number, span in Random(seed).sample(found, n):
        chosen[number].append(span)
    return chosen


if __name__ == "__main__":
    typer.run(main)
