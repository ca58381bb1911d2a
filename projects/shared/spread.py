"""Standard errors of the measures of a linker, by drawing entities with replacement, each with all its mentions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.mentions.gold import gold_of
from spacy_pel.mentions.ranked import RankedMention

MEASURES = ("recall_at_1", "recall_at_64", "nil_auprc", "nil_f1", "all_recall_at_1", "all_recall_at_64")


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions; of those that `okb` made NIL the ids are known")],
    metrics: Annotated[Path, typer.Argument(help="What `evaluate --output` wrote; MEASURE_se is added to it")],
    draws: Annotated[int, typer.Option(help="How often entities are drawn")] = 200,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Add the standard errors to METRICS. Mentions of one entity are right or wrong together, so that a draw of
    mentions would make them too small."""
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    mentions = [one for one in gold_of(read_docs(corpus, nlp.vocab), linker.kb) if one.ids]
    ranked = rank_mentions(linker, mentions, 64, progress=True)
    known = set(linker.kb.rows({id_ for one in mentions for id_ in one.ids}))
    entities = [one.span.id_ or "|".join(one.ids) for one in mentions]
    errors = standard_errors(ranked, entities, known, linker.threshold, draws, seed)
    found: Any = srsly.read_json(metrics)
    srsly.write_json(metrics, found | {f"{name}_se": value for name, value in errors.items()})
    typer.echo(f"{metrics}: standard errors {errors}")


def standard_errors(
    ranked: Sequence[RankedMention],
    entities: Sequence[str],
    known: set[str],
    threshold: float | None,
    draws: int,
    seed: int,
) -> dict[str, float | None]:
    """The deviation of each measure over the draws; None for one that fewer than two of them have.

    Args:
        ranked: Mentions.
        entities: Of what entity each is.
        known: Gold ids that the KB has.
        threshold: The NIL threshold.
        draws: How often to draw.
        seed: Of the draws.
    """
    of: dict[str, list[RankedMention]] = defaultdict(list)
    for entity, mention in zip(entities, ranked, strict=True):
        of[entity].append(mention)
    groups, rng = list(of.values()), np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for _ in range(draws):
        drawn = [one for i in rng.integers(len(groups), size=len(groups)).tolist() for one in groups[i]]
        measured = link_metrics(drawn, known, nil_threshold=threshold)
        for name, values in found.items():
            if measured[name] is not None:
                values.append(measured[name])
    return {name: float(np.std(values, ddof=1)) if len(values) > 1 else None for name, values in found.items()}


if __name__ == "__main__":
    typer.run(main)
