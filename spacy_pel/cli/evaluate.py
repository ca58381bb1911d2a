"""`spacy pel evaluate`: how well a pipeline links the gold mentions of a corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from wasabi import msg

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.ranked import RankedMention

MIN_DEPTH = 64  # recall_at_64 is always reported
TABLE = {
    "Mentions": ("n_mentions", "n_in_kb", "n_nil", "n_unannotated"),
    "In the KB": (
        *("recall_at_1", "recall_at_5", "recall_at_16", "recall_at_64", "mrr"),
        *("seen_recall_at_1", "unseen_recall_at_1", "n_ambiguous", "ambiguous_recall_at_1"),
    ),
    "NIL": ("nil_threshold", "nil_precision", "nil_recall", "nil_f1", "nil_auprc", "nil_base_rate"),
    "All": ("all_recall_at_1", "all_recall_at_64"),
    "End to end": ("end_to_end_precision", "end_to_end_recall", "end_to_end_f1"),
    "Probabilities": ("link_ece", "score_ece"),
    "Speed": ("mentions_per_second",),
}


@command("evaluate")
def evaluate(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    corpus: Annotated[Path, typer.Argument(help="A corpus with gold mentions", metavar="CORPUS.spacy")],
    output: Annotated[Path | None, typer.Option(help="Write the measures here, as JSON")] = None,
    train: Annotated[Path | None, typer.Option(help="The training corpus: tells seen ids, ambiguous forms")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Use the first N documents only; 0 uses all")] = 0,
    with_end_to_end: Annotated[
        bool,
        typer.Option("--end-to-end", help="Also score, by span and id, the entities that the pipeline finds"),
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(help="Draw figures into this folder, as PNG and SVG; wants the extra `plots`")
    ] = None,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Link the gold mentions of a corpus and print the measures: recall, MRR, NIL, speed.

    A gold id that the KB lacks counts as NIL. Measures are fractions; "-" is one with nothing to measure.

    Example: python -m spacy pel evaluate linker corpus/dev.spacy --train corpus/train.spacy --output metrics/dev.json
    """
    from itertools import islice
    from time import perf_counter

    from ..corpora.docbin import read_docs
    from ..evaluation.end_to_end import end_to_end
    from ..evaluation.metrics import link_metrics
    from ..evaluation.ranking import rank_gold
    from ..files.atomic import write_atomically
    from ..kb.entity import NIL
    from ..mentions.gold import ambiguous_forms, gold_of
    from ..reports.plots import require_matplotlib
    from ..tuning.calibration import calibration_metrics
    from ..tuning.nil import nil_curve

    if plots:
        require_matplotlib()
    nlp, _, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    assert linker.kb is not None  # load_linker saw to it
    docs = list(islice(read_docs(corpus, nlp.vocab), limit or None))
    mentions = gold_of(docs, linker.kb)
    gold_ids = {id_ for mention in mentions for id_ in mention.ids}
    if not gold_ids:
        raise PelError(f"{corpus} has no annotated mention: there is nothing to measure")
    known: dict[str, Any] = {}
    if train:
        learnt = gold_of(read_docs(train, nlp.vocab), linker.kb)
        known["train_ids"] = {id_ for mention in learnt for id_ in mention.ids}
        known["ambiguous_forms"] = ambiguous_forms([*learnt, *mentions])

    if plots:
        _make_folder(plots)
    start = perf_counter()
    ranked = rank_gold(linker, docs, k=max(MIN_DEPTH, linker.top_k), progress=True)
    seconds = perf_counter() - start
    metrics: dict[str, Any] = {"corpus": str(corpus)}
    metrics |= link_metrics(ranked, linker.kb, nil_threshold=linker.threshold, **known)
    metrics["mentions_per_second"] = metrics["n_mentions"] / seconds

    metrics |= {"link_ece": None, "score_ece": None, "reliability": [], "nil_curve": nil_curve(ranked, linker.kb)}
    if linker.calibration is not None:
        metrics |= calibration_metrics(ranked, linker.calibration)
        if linker.kb.entity_index(linker.fingerprint).metric == "dot":
            metrics["score_ece"] = None  # a dot product is nothing like a probability

    if with_end_to_end:
        metrics |= end_to_end(nlp, docs, linker.kb, linker.spans_key)

    _print_table(metrics)
    n_missing = sum(id_ not in linker.kb for id_ in gold_ids - {NIL})
    n_ids = len(gold_ids - {NIL})
    tell = msg.warn if 0 < n_ids == n_missing else msg.text
    tell(f"{n_missing:,} of {n_ids:,} distinct gold ids are not in the KB.")
    if output:
        write_atomically(output, (json.dumps(metrics, indent=2, allow_nan=False) + "\n").encode())
        msg.good(f"Wrote {output}")
    if plots:
        _write_plots(plots, ranked, metrics, linker.kb)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PelError(f"--plots {path}: no such folder can be made ({error.strerror}); choose another") from error


def _write_plots(folder: Path, ranked: Sequence[RankedMention], metrics: dict[str, Any], kb: KnowledgeBase) -> None:
    from ..reports.plots import draw_figures, save_figure

    written = []
    for name, figure in draw_figures(ranked, metrics, kb).items():
        if isinstance(figure, str):
            msg.text(f"No figure {name}: {figure}.")
        else:
            save_figure(figure, folder / name)
            written.append(name)
    msg.good(f"Wrote {', '.join(written)} to {folder}, each as .png and .svg")
    if metrics["nil_threshold"] is None:
        msg.text("The figures show no NIL threshold: none is in force; run `spacy pel tune-nil`.")


def _print_table(metrics: dict[str, Any]) -> None:
    rows = []
    for group, keys in TABLE.items():
        shown = [key for key in keys if key in metrics]
        rows += [(group if key == keys[0] else "", key, _format(metrics[key])) for key in shown]
    msg.table(rows, header=("", "Measure", "Value"), aligns=("l", "l", "r"), divider=True)


def _format(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
