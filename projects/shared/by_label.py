"""A linker measured on the mentions of each label by themselves, such as those of each world."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import spacy
import srsly
import typer

from spacy_pel.components import find_linker, find_ranker
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.evaluation.reranked import with_ranker
from spacy_pel.mentions.gold import gold_of
from spacy_pel.mentions.ranked import RankedMention


def main(
    pipeline: Annotated[
        Path, typer.Argument(help="With a pel_linker and its KB, and perhaps a pel_ranker; left as it is")
    ],
    corpus: Annotated[Path, typer.Argument(help="A .spacy file of gold mentions")],
    output: Annotated[Path, typer.Argument(help="Folder for LABEL.json")],
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Write one JSON of measures for each label, with the keys of `python -m spacy pel evaluate`. A mention is searched
    among the entities that `types_by_label` of the linker allows for its label. Where there is a ranker, `normalised`
    is measured too."""
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    nlp = spacy.load(pipeline)
    linker: Any = with_ranker(nlp, find_linker(nlp)[1])
    ranker = find_ranker(nlp)
    mentions = gold_of(read_docs(corpus, nlp.vocab), linker.kb)
    parts: dict[str, list[RankedMention]] = defaultdict(list)
    for mention, ranked in zip(mentions, rank_mentions(linker, mentions, 64, progress=True), strict=True):
        parts[mention.span.label_].append(ranked)
    output.mkdir(parents=True, exist_ok=True)
    for label, found in parts.items():
        values: dict[str, Any] = link_metrics(found, linker.kb, nil_threshold=linker.threshold, as_linked=True)
        if ranker is not None:
            values |= normalised(found, ranker[1].top_n)
        srsly.write_json(output / f"{label}.json", {"corpus": str(corpus), **values})
        typer.echo(f"{output / label}.json: {values['n_in_kb']:,} mentions, recall@1 {values['recall_at_1']}")


def normalised(found: Sequence[RankedMention], top_n: int) -> dict[str, Any]:
    """How many mentions have their entity among the `top_n` candidates that the ranker is given, and how many of these
    are right: recall@1 / recall@top_n; None where there are none."""
    right = [one.rank == 1 for one in found if one.rank <= top_n]
    return {"n_offered": len(right), "normalised_accuracy": fmean(right) if right else None}


if __name__ == "__main__":
    typer.run(main)
