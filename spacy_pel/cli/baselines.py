"""`spacy pel baselines`: what strings alone reach on a corpus, to be read beside a linker's measures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .pipeline import blank
from .printing import msg, shown

SHOWN = ("recall_at_1", "recall_at_64", "seen_recall_at_1", "unseen_recall_at_1", "nil_f1", "mentions_per_second")

Measured = tuple[str, dict[str, Any]]  # a baseline's name and its measures


@command("baselines")
def baselines(
    kb: Annotated[Path, typer.Argument(help="A KB folder; it needs no vectors", metavar="KB")],
    corpus: Annotated[
        Path,
        typer.Argument(help="A corpus with gold mentions: .spacy, or .jsonl as `link` writes it", metavar="CORPUS"),
    ],
    metrics: Annotated[Path, typer.Argument(help="Folder for baseline-NAME.json", metavar="METRICS_DIR")],
    train: Annotated[Path | None, typer.Option(help="The training corpus: tells seen ids, ambiguous forms")] = None,
    tune: Annotated[Path | None, typer.Option(help="Tune each baseline's NIL threshold on this corpus")] = None,
    lang: Annotated[str, typer.Option(help="Language whose tokenizer is used, for .jsonl")] = "en",
    top_k: Annotated[int, typer.Option(min=1, help="Candidates a mention; never under 64")] = 64,
) -> None:
    """Measure exact alias match and TF-IDF on a corpus, as `evaluate` measures a linker.

    Three baselines: names equal to the mention, case ignored (`exact-alias`); TF-IDF of character 3-grams, searched
    exactly (`tfidf`); the same with what the text says of a mention, the long forms of abbreviations and other names in
    brackets (`tfidf-long-forms`). The last is the fair one beside a linker, which reads them too. TF-IDF needs the
    extra `baselines`.

    Example: python -m spacy pel baselines kb corpus/dev.spacy metrics --train corpus/train.spacy
    """
    from ..corpora.gold_corpus import read_gold
    from ..evaluation.baselines import evaluate_baselines, require_sklearn
    from ..files.atomic import write_json
    from ..kb.knowledge_base import KnowledgeBase

    require_sklearn()
    nlp = blank(lang)
    docs, learnt, tuning = (list(read_gold(path, nlp)) if path else [] for path in (corpus, train, tune))
    if metrics.exists() and not metrics.is_dir():
        raise PelError(f"{metrics} is a file: name a folder")
    measured = evaluate_baselines(KnowledgeBase(kb), docs, train=learnt, tune=tuning, progress=True, k=top_k)
    rows = []
    for name, values in _of(" and ".join(map(str, filter(None, (corpus, tune)))), measured):
        write_json(metrics / f"baseline-{name}.json", {"corpus": str(corpus)} | values)
        rows.append((name, *(shown(values[key]) for key in SHOWN)))
    msg.table(rows, header=("", *SHOWN), aligns=("l", *"r" * len(SHOWN)), divider=True)
    msg.good(f"Wrote {len(rows)} files to {metrics}; `spacy pel table {metrics}` makes a table of them")


def _of(corpora: str, measured: Iterator[Measured]) -> Iterator[Measured]:
    """What is `measured`; an error names the `corpora`."""
    try:
        yield from measured
    except PelError as error:
        raise PelError(f"{corpora}: {error}") from error
