"""One trained linker measured in several ways: by vectors alone, by names too, with the long forms of abbreviations."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import spacy
import srsly
import typer
from spacy.tokens import Doc, Span
from thinc.api import Model

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.mentions.gold import gold_of
from spacy_pel.models.encoding import encode_spans
from spacy_pel.pipeline.tuning import find_for_gold
from spacy_pel.search import find
from spacy_pel.search.parts import EXACT, NAMES, NGRAM
from spacy_pel.tuning.name_weights import fit_weights


class Variant(NamedTuple):
    """abbreviations: whether long forms are read. ngram, exact: whether either feature of the names counts."""

    abbreviations: bool = False
    ngram: bool = False
    exact: bool = False


VARIANTS = {
    "vectors": Variant(),
    "hybrid": Variant(ngram=True, exact=True),
    "abbreviations": Variant(abbreviations=True),
    "hybrid-abbreviations": Variant(abbreviations=True, ngram=True, exact=True),
    "ngram-abbreviations": Variant(abbreviations=True, ngram=True),
    "exact-abbreviations": Variant(abbreviations=True, exact=True),
}


class EncodedOnce:
    """`encode_spans`, once for all variants that read the same batch of spans, of Docs that live as long as this.

    Attributes:
        spared: The seconds that encoding took the first time, summed over the calls that were spared it.
    """

    def __init__(self) -> None:
        self.spared = 0.0
        self._known: dict[tuple[tuple[int, int, int], ...], tuple[tuple[np.ndarray, np.ndarray], float]] = {}

    def __call__(self, model: Model, spans: list[Span]) -> tuple[np.ndarray, np.ndarray]:
        key = tuple((id(span.doc), span.start, span.end) for span in spans)
        if key in self._known:
            self.spared += self._known[key][1]
        else:
            start = perf_counter()
            self._known[key] = encode_spans(model, spans), perf_counter() - start
        return self._known[key][0]


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions to measure on")],
    output: Annotated[Path, typer.Argument(help="Folder for NAME-VARIANT.json")],
    train: Annotated[Path, typer.Option(help="Training corpus: tells seen ids")],
    tune: Annotated[Path | None, typer.Option(help="Gold mentions that the weights of names are fitted to")] = None,
    weights: Annotated[Path | None, typer.Option(help="Or the output folder of a run of the same names")] = None,
    name: Annotated[str, typer.Option(help="Of the trained linker")] = "linker",
    variants: Annotated[str, typer.Option(help="Comma-separated, of " + ", ".join(VARIANTS))] = ",".join(VARIANTS),
    vectors: Annotated[str, typer.Option(help="Comma-separated, of entity, names and both; what the KB has")] = "",
) -> None:
    """Write one JSON of measures per variant, and with `--vectors` one for each kind (NAME-KIND-VARIANT.json), with the
    keys of `python -m spacy pel evaluate`, the weights and the bytes of the vectors. Mentions are encoded, and that is
    timed, once; the rest is timed for each."""
    wanted = variants.split(",")
    if unknown := set(wanted) - VARIANTS.keys():
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose of {', '.join(VARIANTS)}")
    if (tune is None) == (weights is None):
        raise typer.BadParameter("give --tune or --weights")
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    train_ids = {id_ for mention in gold_of(read_docs(train, nlp.vocab), linker.kb) for id_ in mention.ids}
    docs = list(read_docs(corpus, nlp.vocab))
    tuned_on = docs if tune in (corpus, None) else list(read_docs(tune, nlp.vocab))
    output.mkdir(parents=True, exist_ok=True)
    with patch.object(find, "encode_spans", EncodedOnce()) as encoded:
        for kind, key in product(vectors.split(","), wanted):
            linker.vectors = kind or linker.vectors
            variant, where = VARIANTS[key], "-".join(filter(None, (name, kind, key)))
            linker.resolve_abbreviations, linker.lexical = variant.abbreviations, None
            parts = [part for part in (NGRAM, EXACT) if getattr(variant, part)] + [NAMES] * (linker.vectors == "both")
            if parts and weights:
                linker.lexical = srsly.read_json(weights / f"{where}.json")["lexical"]
            elif parts:
                linker.lexical = fit_weights(find_for_gold(linker, tuned_on, progress=True), parts).as_setting()
            values = measured(linker, docs, train_ids, encoded)
            srsly.write_json(output / f"{where}.json", values)
            typer.echo(f"{where}: recall@1 {values['recall_at_1']:.4f}, weights {linker.lexical}")


def measured(linker: Any, docs: list[Doc], train_ids: set[str], encoded: EncodedOnce) -> dict[str, Any]:
    """The measures of a linker as it is set up now."""
    start, encoded.spared = perf_counter(), 0.0
    ranked = rank_mentions(linker, gold_of(docs, linker.kb), k=64, progress=True)
    seconds = perf_counter() - start + encoded.spared
    values: dict[str, Any] = link_metrics(ranked, linker.kb, train_ids=train_ids)
    size = sum(linker.kb.entity_index(one).size_bytes for one in linker.fingerprints.values())
    values |= {"mentions_per_second": values["n_mentions"] / seconds, "index_bytes": size}
    return values | {"lexical": linker.lexical}


if __name__ == "__main__":
    typer.run(main)
