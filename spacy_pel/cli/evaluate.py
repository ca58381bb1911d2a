"""`spacy pel evaluate`: how well a pipeline links the gold mentions of a corpus."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .out_file import check_out, make_folder
from .pipeline import CODE, GPU_ID, load_linker
from .printing import msg, shown

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.ranked import RankedMention

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
    corpus: Annotated[
        Path,
        typer.Argument(help="A corpus with gold mentions: .spacy, or .jsonl as `link` writes it", metavar="CORPUS"),
    ],
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

    from ..components import read_upstream
    from ..corpora.gold_corpus import read_gold
    from ..evaluation.end_to_end import end_to_end
    from ..evaluation.evaluate import measure
    from ..evaluation.reranked import with_ranker
    from ..files.atomic import check_writable, write_json
    from ..reports.plots import require_matplotlib

    if plots:
        require_matplotlib()
    if output:
        check_writable(output)
        for name, path in (("CORPUS", corpus), ("the training corpus", train)):
            if path:
                check_out(output, path, name, force=True)
    nlp, _, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    docs = read_upstream(nlp, islice(read_gold(corpus, nlp), limit or None))
    learnt = list(read_gold(train, nlp)) if train else None
    if plots:
        make_folder(plots)
    try:
        ranked, measures = measure(with_ranker(nlp, linker), docs, train=learnt, progress=True)
    except PelError as error:
        raise PelError(f"{corpus}: {error}") from error
    metrics = {"corpus": str(corpus)} | measures
    if with_end_to_end:
        metrics |= end_to_end(nlp, docs, linker.require_kb(), linker.settings.spans_key)

    _print_table(metrics)
    n_missing, n_ids = metrics["n_gold_ids_missing"], metrics["n_gold_ids"]
    tell = msg.warn if 0 < n_ids == n_missing else msg.text
    tell(f"{n_missing:,} of {n_ids:,} distinct gold ids are not in the KB.")
    if discarded := _n_discarded(docs, linker.settings.labels_discard):
        msg.text(f"{discarded:,} mentions have a label of labels_discard: they are NIL without a search.")
    if with_end_to_end and metrics["end_to_end_precision"] is None:
        msg.warn(
            f"--end-to-end: the pipeline ({', '.join(nlp.pipe_names)}) finds no entity to be scored; put a component "
            "that does, such as `ner`, `entity_ruler` or `pel_finder`, before pel_linker"
        )
    if output:
        write_json(output, metrics)
        msg.good(f"Wrote {output}")
    if plots:
        _write_plots(plots, ranked, metrics, linker.require_kb())


def _n_discarded(docs: Iterable[Doc], labels: Container[str]) -> int:
    """How many annotated mentions of `docs` have one of `labels`."""
    from ..mentions.gold import gold_mentions, searched

    return sum(bool(one.ids) and not searched(one, labels) for doc in docs for one in gold_mentions(doc))


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
        present = [key for key in keys if key in metrics]
        rows += [(group if key == keys[0] else "", key, shown(metrics[key])) for key in present]
    msg.table(rows, header=("", "Measure", "Value"), aligns=("l", "l", "r"), divider=True)
