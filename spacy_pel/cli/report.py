"""`spacy pel report`: a linked corpus in numbers, without gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .out_file import check_out, make_folder
from .printing import msg, shown

SHOWN = 15  # of forms and entities, if nothing else is said


@command("report")
def report(
    linked: Annotated[
        list[Path], typer.Argument(help="What `link` wrote: .jsonl, .parquet or .spacy files, and folders of these")
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="What `evaluate --output` wrote of the development set, or a linked corpus, to compare with"),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Forms and entities to print")] = SHOWN,
    output: Annotated[Path | None, typer.Option(help="Write all of it here, as JSON")] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Draw figures into this folder, as PNG and SVG; wants the extra `plots`")
    ] = None,
    spans_key: Annotated[str | None, typer.Option(help="Of .spacy files: the group of spans; else the ents")] = None,
) -> None:
    """Say what can be said of a linked corpus without gold: how many mentions are NIL, by label; how the probabilities
    are spread, and how far from those of a corpus that is known; the commonest forms that are NIL; and the entities
    with most links that are expected to be wrong, by their probabilities.

    Drift is the population stability index over tenths of the probability: under 0.1 by custom the same, from 0.25 on
    another distribution.

    Example: python -m spacy pel report linked.jsonl --against metrics/dev.json
    """
    from spacy.vocab import Vocab
    from tqdm import tqdm

    from ..files.atomic import check_writable, write_atomically
    from ..reports.linked import count_linked, files_in, known_bins, summary
    from ..reports.plots import probabilities, require_matplotlib, save_figure

    if plots:
        require_matplotlib()
    if output:
        check_writable(output)
    files = list({file.resolve(): file for path in linked for file in files_in(path)}.values())
    if output and against:
        for file in files_in(against) if against.is_dir() else [against]:
            check_out(output, file, "what is compared with", force=True)
    if output:
        for file in files:
            check_out(output, file, "one of the files to report on", force=True)
    if plots:
        make_folder(plots)
    known = known_bins(against, Vocab(), spans_key) if against else None
    with tqdm(files, desc="Reading", unit=" files", disable=None) as bar:
        counts = count_linked(bar, Vocab(), spans_key)
    if not counts.every.n:
        raise PelError(f"{', '.join(map(str, linked))}: no mention is linked there, nor NIL")
    _print(summary(counts, known, top))
    if output:
        found = summary(counts, known)
        write_atomically(output, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
        msg.good(f"Wrote {output}")
    if plots and (figure := probabilities(counts.bins, known)):
        save_figure(figure, plots / "probabilities")
        msg.good(f"Wrote probabilities to {plots}, as .png and .svg")


def _print(found: dict[str, Any]) -> None:
    keys = ("n_texts", "n_mentions", "n_nil", "nil_rate", "expected_accuracy", "expected_wrong", "drift")
    msg.table([(key, shown(found[key])) for key in keys], header=("All", ""), aligns=("l", "r"), divider=True)
    _print_rows("Label", found["labels"], "")
    if any(found["probabilities"]):
        _print_probabilities(found["probabilities"], found["probabilities_known"])
    else:
        msg.text("No link has a probability: run `spacy pel tune-nil`, and link again.")
    if found["nil_forms"]:
        forms = [(form, f"{n:,}") for form, n in found["nil_forms"].items()]
        msg.table(forms, header=("NIL most often", "Mentions"), aligns=("l", "r"), divider=True)
    if found["entities"]:
        _print_rows("Most links expected wrong", found["entities"], "form")


def _print_rows(title: str, rows: dict[str, dict[str, Any]], extra: str) -> None:
    keys = ("n", "nil_rate", "expected_accuracy", "expected_wrong")
    cells = [
        (name or "-", *([row[extra]] if extra else []), *(shown(row[key]) for key in keys))
        for name, row in rows.items()
    ]
    header = (title, *(["First form"] if extra else []), "Mentions", "NIL", "Accuracy", "Wrong")
    msg.table(cells, header=header, aligns=("l",) * (len(header) - 4) + ("r",) * 4, divider=True)


def _print_probabilities(bins: list[int], known: list[int] | None) -> None:
    columns = [bins] if known is None else [bins, known]
    shares = [[f"{n / max(sum(column), 1):.1%}" for n in column] for column in columns]
    rows = [
        (f"{i / len(bins):.1f} to {(i + 1) / len(bins):.1f}", *each) for i, each in enumerate(zip(*shares, strict=True))
    ]
    header = ("Probability", "Here", "Known")[: 1 + len(columns)]
    msg.table(rows, header=header, aligns=("l", *("r" for _ in columns)), divider=True)
