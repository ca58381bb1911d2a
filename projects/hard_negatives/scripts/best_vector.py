"""Which of an entity's vectors the maximum of a multi-vector score takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from scores import Data, corpus_of

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.several import Several
from spacy_pel.mentions.gold import gold_of
from spacy_pel.models.encoding import encode_entities, encode_spans


def main(
    linker: Annotated[Path, typer.Argument(help="A linker by a multi-vector score, that `scores` has left")],
    output: Annotated[Path, typer.Argument(help="JSON file")],
    name: Data = "scores",
) -> None:
    """Of all pairs of a development mention and an entity that one of them means: the share in which the first vector
    of the entity is the best, and by how much it is ahead of the best of the others."""
    nlp = spacy.load(linker)
    pipe: Any = nlp.get_pipe("pel_linker")
    mentions = gold_of(read_docs(corpus_of(name, "dev"), nlp.vocab), pipe.kb)
    entities = pipe.kb.get_many({id_ for mention in mentions for id_ in mention.ids}).values()
    queries, _ = encode_spans(pipe.model, [mention.span for mention in mentions])
    vectors = encode_entities(pipe.model, entities)
    if not isinstance(vectors, Several) or vectors.counts.max() < 2:
        raise typer.BadParameter(f"{linker} has one vector an entity; name a linker by a multi-vector score")
    if isinstance(queries, Several):
        raise typer.BadParameter(f"{linker} has several vectors a mention; name a linker by a multi-vector score")
    found = measures(np.asarray(queries) @ vectors.vectors.T, vectors.counts)
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, found)
    typer.echo(f"{output}: {found}")


def measures(products: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """The measures of `products` (mentions, vectors) with entities of `counts` (entities,) vectors, each at least 1."""
    starts = np.cumsum(counts) - counts
    first = products[:, starts]
    others = products.copy()
    others[:, starts] = -np.inf
    best = np.maximum.reduceat(others, starts, axis=1)
    lead = (first - best)[np.isfinite(best)]
    return {"pairs": first.size, "first_is_best": float((first >= best).mean()), "least_lead": float(lead.min())}


if __name__ == "__main__":
    typer.run(main)
