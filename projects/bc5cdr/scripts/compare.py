"""The table of what names and abbreviations add: measures over the whole KB, beside NIL with a fifth of it held out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

from spacy_pel.cli.table import markdown, over_seeds

# For each row the files with its measures, one a seed, and those of the linker that had to do with four fifths
ROWS = {
    "alias match": ("baseline-exact-alias", "baseline-exact-alias"),
    "TF-IDF": ("baseline-tfidf", "baseline-tfidf"),
    "TF-IDF + abbreviations": ("baseline-tfidf-long-forms", "baseline-tfidf-long-forms"),
    "proxy-based loss": ("pel-vectors", "margin-0-*-vectors"),
    "proxy-based loss + hybrid": ("pel-hybrid", "margin-0-*[0-9]-hybrid"),
    "proxy-based loss + abbreviations": ("pel-abbreviations", "margin-0-*[0-9]-abbreviations"),
    "proxy-based loss + both": ("pel-hybrid-abbreviations", "margin-0-*-hybrid-abbreviations"),
    "+ alias training": ("pel-names-*-vectors", "names-*-vectors"),
    "+ alias training + hybrid": ("pel-names-*[0-9]-hybrid", "names-*[0-9]-hybrid"),
    "+ alias training + abbreviations": ("pel-names-*[0-9]-abbreviations", "names-*[0-9]-abbreviations"),
    "all of them": ("pel-names-*-hybrid-abbreviations", "names-*-hybrid-abbreviations"),
}
MEASURES = ("recall_at_1", "recall_at_5", "recall_at_64", "seen_recall_at_1", "unseen_recall_at_1")
HEADER = ("", "seeds", *MEASURES, "nil_auprc, held out", "mentions_per_second")


def main(
    metrics: Annotated[Path, typer.Argument(help="JSON files of `pel baselines` and variants.py")],
    held_out: Annotated[Path, typer.Argument(help="Those of the project okb_nil")],
) -> None:
    """Write METRICS/compare.md and print it: of several seeds the mean, the least and the greatest. What has not been
    measured yet is a dash."""
    table = markdown([HEADER, *(row(metrics, held_out, label) for label in ROWS)])
    (metrics / "compare.md").write_text(table, encoding="utf-8")
    typer.echo(table)


def row(metrics: Path, held_out: Path, label: str) -> list[str]:
    own, others = ROWS[label]
    runs: list[Any] = [srsly.read_json(path) for path in sorted(metrics.glob(f"{own}.json"))]
    nil: list[Any] = [srsly.read_json(path) for path in held_out.glob(f"{others}.json")]
    return [
        label,
        str(len(runs)),
        *(over_seeds(key, (run.get(key) for run in runs)) for key in MEASURES),
        over_seeds("nil_auprc", (run.get("nil_auprc") for run in nil)),
        over_seeds("mentions_per_second", (run.get("mentions_per_second") for run in runs)),
    ]


if __name__ == "__main__":
    typer.run(main)
