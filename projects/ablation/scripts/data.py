"""What the runs work on: BC5CDR, its KB without a seeded share of the entities, and some of the training mentions."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Annotated

import spacy
import srsly
import typer

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.corpora.gold import GOLD_GROUP, gold_mentions


def main(
    project: Annotated[Path, typer.Argument(help="The project bc5cdr, after its commands `fetch` and `convert`")],
    mentions: Annotated[int, typer.Option(help="Training mentions to keep; 0: all whose entities stay")] = 0,
    share: Annotated[float, typer.Option(help="Of the entities that are held out")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
) -> None:
    """Write assets/kb.jsonl, assets/encoder, corpus/train.spacy and corpus/dev.spacy.

    A held-out entity leaves the KB: in the development split its mentions are NIL, in training they are absent.
    """
    entities = sorted(srsly.read_jsonl(project / "assets" / "mesh_kb.jsonl"), key=lambda entity: entity["id"])
    out = {entity["id"] for entity in Random(seed).sample(entities, round(share * len(entities)))}
    kept = [entity for entity in entities if entity["id"] not in out]
    known = {entity["id"] for entity in kept}
    docs = list(read_docs(project / "corpus" / "train.spacy", spacy.blank("en").vocab))
    left = [(i, m.span) for i, doc in enumerate(docs) for m in gold_mentions(doc) if not known.isdisjoint(m.ids)]
    chosen = Random(seed).sample(left, mentions) if 0 < mentions < len(left) else left
    for number, doc in enumerate(docs):
        doc.spans[GOLD_GROUP] = [span for i, span in chosen if i == number]
    srsly.write_jsonl(Path("assets/kb.jsonl"), kept)
    write_docs(Path("corpus/train.spacy"), docs)
    shutil.copy(project / "corpus" / "dev.spacy", "corpus")
    shutil.copytree(project / "assets" / "encoder", "assets/encoder", dirs_exist_ok=True)
    typer.echo(
        f"{len(out):,} of {len(entities):,} entities held out; {len(chosen):,} of {len(left):,} training mentions kept"
    )


if __name__ == "__main__":
    typer.run(main)
