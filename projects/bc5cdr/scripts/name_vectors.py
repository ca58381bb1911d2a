"""A trained linker with a vector for every name of the KB in place of one for every entity: what that would find."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from spacy.util import minibatch
from tqdm import tqdm

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.kb.index.best import best
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.mentions.gold import gold_of
from spacy_pel.models.bi_encoder import row_builder, vector_size
from spacy_pel.models.encoding import encode_mention_rows
from spacy_pel.search.search import VectorSearch

AT_ONCE = 8192
DEEPER = 4  # times k names are searched, of which several may be of one entity


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline whose mention tower has learnt names; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions to measure on")],
    output: Annotated[Path, typer.Argument(help="JSON file of measures")],
    train: Annotated[Path, typer.Option(help="Training corpus: tells seen ids")],
) -> None:
    """Encode every name as a mention that stands alone, and give an entity the score of its most similar one. Long
    forms of abbreviations and the weights of names stay out of it."""
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    linker.resolve_abbreviations = False
    own_names = [dict.fromkeys(name.lower() for name in (e.name, *e.aliases)) for e in linker.kb.entities()]
    owner = np.repeat(linker.kb.live_rows, list(map(len, own_names)))
    index = VectorIndex.stream(encoded(nlp, linker.model, list(chain(*own_names))), vector_size(linker.model))

    def search(queries: np.ndarray, k: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        scores, found = index.search(queries, DEEPER * k)
        rows = np.where(found < 0, found, owner[found])
        for own in rows:
            own[np.setdiff1d(np.arange(len(own)), np.unique(own, return_index=True)[1])] = -1
        return best(scores, rows, k)

    train_ids = {id_ for mention in gold_of(read_docs(train, nlp.vocab), linker.kb) for id_ in mention.ids}
    mentions = gold_of(read_docs(corpus, nlp.vocab), linker.kb)
    ranked = rank_mentions(linker, mentions, k=64, progress=True, search=VectorSearch(search))
    values = link_metrics(ranked, linker.kb, train_ids=train_ids)
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, values | {"n_names": len(owner)})
    typer.echo(
        f"{output}: {len(owner):,} names, recall@1 {values['recall_at_1']:.4f}, @64 {values['recall_at_64']:.4f}"
    )


def encoded(nlp: spacy.Language, model: Any, names: list[str]) -> Iterator[np.ndarray]:
    with tqdm(total=len(names), desc="Encoding names", unit="name", unit_scale=True) as bar:
        for block in minibatch(names, AT_ONCE):
            yield encode_mention_rows(model, row_builder(model).mentions([nlp.make_doc(name)[:] for name in block]))
            bar.update(len(block))


if __name__ == "__main__":
    typer.run(main)
