"""The measures of a linker with standard errors, by drawing entities with replacement, each with all its mentions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer

from spacy_pel.cli.table import cell
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.evaluate import measure
from spacy_pel.evaluation.metrics import link_metrics
from spacy_pel.mentions.gold import gold_of
from spacy_pel.mentions.ranked import RankedMention

MEASURES = ("recall_at_1", "recall_at_64", "nil_auprc", "nil_f1", "all_recall_at_1", "all_recall_at_64")


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions; of those that `okb` made NIL the ids are known")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    train: Annotated[Path, typer.Option(help="The training corpus: tells seen ids, ambiguous forms")],
    draws: Annotated[int, typer.Option(help="How often entities are drawn")] = 200,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Write what `python -m spacy pel evaluate` does, and for some measures MEASURE_se, the standard error. Mentions of
    one entity are right or wrong together, so that a draw of mentions would make it too small."""
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    docs = list(read_docs(corpus, nlp.vocab))
    ranked, metrics = measure(linker, docs, train=read_docs(train, nlp.vocab), progress=True)
    pairs = [(one, own) for one, own in zip(gold_of(docs, linker.kb), ranked, strict=True) if one.ids]
    known = set(linker.kb.rows({id_ for one, _ in pairs for id_ in one.ids}))
    entities = [one.span.id_ or "|".join(one.ids) for one, _ in pairs]
    errors = standard_errors([own for _, own in pairs], entities, known, linker.threshold, draws, seed)
    output.parent.mkdir(parents=True, exist_ok=True)
    found = {"corpus": str(corpus), **metrics, **{f"{name}_se": value for name, value in errors.items()}}
    srsly.write_json(output, found)
    shown = (f"{name} {cell(name, metrics[name])} ± {cell(name, error)}" for name, error in errors.items())
    typer.echo(f"{output}: {', '.join(shown)}")


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
