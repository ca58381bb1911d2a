"""BC5CDR in scispaCy's tokens: training abstracts, a fifth of the development ones to tune on, the rest to measure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer
from scispacy.custom_tokenizer import combined_rule_tokenizer
from spacy.tokens import Doc

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.corpora.pubtator import PubTatorReader

FOLD = 5


def main(
    train: Annotated[Path, typer.Argument(metavar="TRAIN.pubtator")],
    dev: Annotated[Path, typer.Argument(metavar="DEV.pubtator")],
    out: Annotated[Path, typer.Argument(help="Folder for train.spacy, tune.spacy and test.spacy")],
) -> None:
    """Gold mentions in `doc.ents` and `doc.spans["gold_mentions"]`, widened to tokens where they must be."""
    train_docs, dev_docs = (read(path) for path in (train, dev))
    tune_docs = dev_docs[::FOLD]
    test_docs = [doc for i, doc in enumerate(dev_docs) if i % FOLD]
    for name, docs in (("train", train_docs), ("tune", tune_docs), ("test", test_docs)):
        write_docs(out / f"{name}.spacy", docs)
        typer.echo(f"{name}: {len(docs)} abstracts, {sum(len(doc.spans['gold_mentions']) for doc in docs):,} mentions")


def read(path: Path) -> list[Doc]:
    nlp = spacy.blank("en")
    nlp.tokenizer = combined_rule_tokenizer(nlp)
    reader = PubTatorReader(path, nlp)
    docs = list(reader)
    typer.echo(f"{path.name}: {reader.counts.widened} of {reader.counts.mentions:,} mentions widened to whole tokens")
    return docs


if __name__ == "__main__":
    typer.run(main)
