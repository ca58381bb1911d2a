"""Sentences with [mention|id] in them, as a .spacy corpus with gold mentions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import GOLD_GROUP

MENTION = re.compile(r"\[([^|\]]+)\|([^\]]+)\]")


def main(
    source: Annotated[Path, typer.Argument(help="Text: one sentence a line; lines with # are comments")],
    out: Annotated[Path, typer.Argument(help="The .spacy file to write")],
) -> None:
    """Write the sentences of SOURCE to OUT."""
    nlp = spacy.blank("en")
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
        docs = [annotated(nlp, line) for line in lines if line.strip() and not line.startswith("#")]
        write_docs(out, docs)
    except (OSError, UnicodeDecodeError, PelError) as error:
        typer.secho(f"✘ {source}: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{out}: {len(docs)} sentences, {sum(len(doc.ents) for doc in docs)} mentions")


def annotated(nlp: Language, line: str) -> Doc:
    """The sentence `line` without its marks, and with the mentions that these say."""
    parts = MENTION.split(line)
    doc, end, spans = nlp.make_doc("".join(part for i, part in enumerate(parts) if i % 3 != 2)), 0, []
    for before, mention, id_ in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        start = end + len(before)
        end = start + len(mention)
        span = doc.char_span(start, end, label="PRODUCT", kb_id=id_)
        if span is None:
            raise PelError(f"{mention!r} is no whole number of words in {doc.text!r}; move the brackets")
        spans.append(span)
    doc.spans[GOLD_GROUP] = [Span(doc, s.start, s.end, label=s.label, kb_id=s.kb_id) for s in spans]
    doc.ents = spans
    return doc


if __name__ == "__main__":
    typer.run(main)
