"""What the runs learn from: some of the training mentions of BC5CDR whose entities are in the KB."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Annotated

import spacy
import typer

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions


def main(
    project: Annotated[Path, typer.Argument(help="The project bc5cdr, after its commands `fetch` and `convert`")],
    kb_path: Annotated[Path, typer.Argument(metavar="KB", help="KB folder")],
    mentions: Annotated[int, typer.Option(help="Training mentions to keep; 0: all whose entities are in the KB")] = 0,
    seed: Annotated[int, typer.Option(help="Of the draw")] = 0,
) -> None:
    """Write corpus/train.spacy and corpus/dev.spacy."""
    docs = list(read_docs(project / "corpus" / "train.spacy", spacy.blank("en").vocab))
    found = [(number, mention) for number, doc in enumerate(docs) for mention in gold_mentions(doc)]
    known = KnowledgeBase(kb_path).rows({id_ for _, mention in found for id_ in mention.ids}).keys()
    left = [(number, mention.span) for number, mention in found if not known.isdisjoint(mention.ids)]
    chosen = Random(seed).sample(left, mentions) if 0 < mentions < len(left) else left
    for number, doc in enumerate(docs):
        doc.spans[GOLD_GROUP] = [span for own, span in chosen if own == number]
    write_docs(Path("corpus/train.spacy"), docs)
    shutil.copy(project / "corpus" / "dev.spacy", "corpus")
    typer.echo(f"{len(chosen):,} of the {len(left):,} training mentions whose entities are in the KB")


if __name__ == "__main__":
    typer.run(main)
