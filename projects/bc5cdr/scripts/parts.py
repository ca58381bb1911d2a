"""Where the time of linking goes: the seconds of each part of `nlp.pipe` over gold mentions, the rest beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any
from unittest.mock import patch

import spacy
import srsly
import typer
from wasabi import msg

from spacy_pel.corpora.docbin import read_docs

ENCODER, REST = "encoder", "rest"
# What is called in each part; of calls within calls the innermost counts
PARTS = {
    "long forms": ["search.find:long_forms"],
    "tokenising": ["models.inputs:RowBuilder.mentions", "models.token_rows:TokenRows.unique"],
    ENCODER: ["models.encoding:encode_mention_rows"],
    "vectors": ["kb.index.entity_index:EntityIndex.nearest", "kb.index.entity_index:EntityIndex.similarities"],
    "names, found": ["kb.names.name_index:NameIndex._match", "kb.names.name_index:NameMatch.best"],
    "names, scored": ["kb.names.name_index:NameMatch.scores"],
    "merge": ["search.hybrid:HybridSearch.__call__"],
    "ids": ["kb.knowledge_base:KnowledgeBase.ids"],
    "links": ["search.find:evidence", "pipeline.linker:PelLinker.links", "pipeline.linker:PelLinker.set_annotations"],
}


class Stopwatch:
    """The seconds of each part, without those of the parts within it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._within: list[str] = []
        self._since = 0.0

    def timed(self, part: str, function: Callable) -> Callable:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._within.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._turn()
                self._within.pop()

        return call

    def _turn(self) -> None:
        now = perf_counter()
        if self._within:
            self.seconds[self._within[-1]] += now - self._since
        self._since = now

    def watch(self) -> ExitStack:
        """Time all of `PARTS` until the block ends."""
        stack = ExitStack()
        for part, places in PARTS.items():
            for place in places:
                module, _, path = place.partition(":")
                owner: Any = import_module(f"spacy_pel.{module}")
                *classes, name = path.split(".")
                for one in classes:
                    owner = getattr(owner, one)
                stack.enter_context(patch.object(owner, name, self.timed(part, getattr(owner, name))))
        return stack


def main(
    pipeline: Annotated[Path, typer.Argument(help="The indexed pipeline")],
    corpus: Annotated[Path, typer.Argument(help="A .spacy file")],
    output: Annotated[Path, typer.Argument(help="JSON file for the figures")],
    docs: Annotated[int, typer.Option(help="Documents; 0: all")] = 0,
    vectors: Annotated[str, typer.Option(help="The setting of that name")] = "entity",
    ngram: Annotated[float, typer.Option(help="What names weigh as 3-grams")] = 0.25,
    exact: Annotated[float, typer.Option(help="What an exact name weighs")] = 0.08,
) -> None:
    """Link once to warm up, then measure; print a table and write it as JSON."""
    nlp = spacy.load(pipeline, config={"components": {"pel_linker": {"vectors": vectors}}})
    linker = nlp.get_pipe("pel_linker")
    linker.lexical, linker.resolve_abbreviations = {"ngram": ngram, "exact": exact}, True
    gold = list(read_docs(corpus, nlp.vocab))[: docs or None]
    list(nlp.pipe([doc.copy() for doc in gold[:10]]))
    watch, copies = Stopwatch(), [doc.copy() for doc in gold]
    with watch.watch():
        watch.timed(REST, lambda: list(nlp.pipe(copies)))()
    n_mentions, whole = sum(len(doc.ents) for doc in gold), watch.seconds.total()
    figures = {f"{part}: seconds": watch.seconds[part] for part in (*PARTS, REST)}
    figures |= {
        "n_mentions": n_mentions,
        "mentions_per_second": n_mentions / whole,
        "all but the encoder: ms a mention": (whole - watch.seconds[ENCODER]) / n_mentions * 1000,
    }
    rows = [(part, f"{value:.2f}", f"{value / whole:.1%}") for part, value in watch.seconds.most_common()]
    msg.table(
        [*rows, ("all", f"{whole:.2f}", "100.0%")],
        header=("", "seconds", "share"),
        aligns=("l", "r", "r"),
        divider=True,
    )
    msg.info(f"{n_mentions:,} mentions, {n_mentions / whole:,.0f} a second")
    srsly.write_json(output, figures)


if __name__ == "__main__":
    typer.run(main)
