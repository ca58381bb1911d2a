"""Raw sentences linked, then one again after the shop has begun to sell what it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer

from spacy_pel.kb.readers.jsonl import read_jsonl

SENTENCES = (
    "Drill the hole, push in the plug and drive the screw home.",
    "Pull out the plug and the water runs out of the bath.",
    "The residual-current device (RCD) tripped twice.",
)
NEW = "The impact driver drove the long screws without any effort."


def main(
    pipeline: Annotated[Path, typer.Argument(help="What `new-linker --find` wrote; left as it is")],
    added: Annotated[Path, typer.Argument(help="Entity records that the KB lacks")],
) -> None:
    """Print the links of some sentences. The new entities are added to a copy of the pipeline in memory."""
    nlp = spacy.load(pipeline)
    for doc in nlp.pipe((*SENTENCES, NEW)):
        show(doc)
    new = spacy.load(pipeline)
    new.from_bytes(nlp.to_bytes())  # which brings a KB of its own
    new.get_pipe("pel_linker").add_entities(read_jsonl(added))
    typer.echo(f"\nWith {added.name}:")
    show(new(NEW))


def show(doc: spacy.tokens.Doc) -> None:
    links = ", ".join(f"{ent.text} → {ent.kb_id_}" for ent in doc.ents)
    typer.echo(f"{doc.text}\n    {links or 'nothing was found'}")


if __name__ == "__main__":
    typer.run(main)
