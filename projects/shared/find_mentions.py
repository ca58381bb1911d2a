"""Mentions found by the names of a KB, by `pel_finder` or by an `entity_ruler` with the patterns of `kb patterns`:
precision, recall and F1 of the spans, time, memory."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import spacy
import srsly
import typer
from memory import memory_mb
from spacy.language import Language
from spacy.tokens import Doc

from spacy_pel.cli.table import cell
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names.patterns import patterns
from spacy_pel.mentions.gold import gold_mentions


class Finder(str, Enum):
    """What finds the mentions."""

    finder = "finder"
    ruler = "ruler"


def main(
    kb: Annotated[Path, typer.Argument(help="A KB folder")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions")],
    output: Annotated[Path, typer.Argument(help="JSON file of measures")],
    by: Annotated[Finder, typer.Option(help="What finds the mentions")] = Finder.finder,
    min_length: Annotated[int, typer.Option(help="Names with fewer characters are not looked for")] = 3,
    types: Annotated[list[str] | None, typer.Option(help="For pel_finder: only names of entities of this type")] = None,
) -> None:
    """Measure spans against the gold mentions, whatever their labels: those with the same first and last token are
    right. Seconds are of the processor. Memory is that of Linux: what is resident and no file, more than before it was
    loaded; and the peak of the process, mapped files counted."""
    nlp = spacy.blank("en")
    docs = list(read_docs(corpus, nlp.vocab))
    gold = [{(mention.span.start, mention.span.end) for mention in gold_mentions(doc)} for doc in docs]
    texts = [Doc(nlp.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc]) for doc in docs]
    before, start = memory_mb("RssAnon"), process_time()
    add_finder(nlp, kb, by, min_length, types or [])
    list(nlp.pipe(texts[:1]))
    ready = process_time()
    found = [{(ent.start, ent.end) for ent in doc.ents} for doc in nlp.pipe(texts)]
    seconds = process_time() - ready
    right = sum(len(own & there) for own, there in zip(found, gold, strict=True))
    n_found, n_gold = sum(map(len, found)), sum(map(len, gold))
    values = {
        "precision": share(right, n_found),
        "recall": share(right, n_gold),
        "f1": share(2 * right, n_found + n_gold),
        "n_found": n_found,
        "n_gold": n_gold,
        "seconds_to_first_doc": ready - start,
        "tokens_per_second": sum(map(len, texts)) / seconds,
        "anonymous_mb_more": memory_mb("RssAnon") - before,
        "peak_mb": memory_mb("VmHWM"),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, values)
    typer.echo(f"{output}: " + ", ".join(f"{key} {cell(key, value)}" for key, value in values.items()))


def share(part: int, whole: int) -> float | None:
    """None where there is nothing to measure."""
    return part / whole if whole else None


def add_finder(nlp: Language, kb: Path, by: Finder, min_length: int, types: list[str]) -> None:
    """Add what finds mentions to a pipeline."""
    if by is Finder.finder:
        own = {"@misc": "spacy_pel.KBFromDisk.v1", "path": str(kb)}
        nlp.add_pipe("pel_finder", config={"kb": own, "min_length": min_length, "types": types})
        return
    ruler: Any = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    stop_words = nlp.Defaults.stop_words
    entities = KnowledgeBase(kb).entities()
    ruler.add_patterns(list(patterns(entities, label="ENTITY", min_length=min_length, stop_words=stop_words)))


if __name__ == "__main__":
    typer.run(main)
