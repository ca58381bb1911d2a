"""Search by names: ours beside tantivy and SQLite's FTS5, on the same names and mentions, one thread.

What each finds is compared with the 64 names that are most alike by our measure, the cosine of 3-grams weighted by idf.
The others give candidates only, which are scored by that measure outside the time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated, NamedTuple

import numpy as np
import spacy
import srsly
import tantivy
import typer

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names import tables
from spacy_pel.kb.names.grams import BITS, Vocabulary, name_grams
from spacy_pel.kb.names.normal_form import normalized
from spacy_pel.mentions.gold import gold_mentions

K, DEEPER = 64, 256
EVERY = 10**9
Engine = Callable[[str], Iterable[int]]


class Names(NamedTuple):
    """Names, and how alike each is to each mention.

    Attributes:
        forms: Of the names, normalised.
        mentions: Normalised.
        vocabulary: The 3-grams of `forms`.
        alike: (mentions, names).
    """

    forms: list[str]
    mentions: list[str]
    vocabulary: Vocabulary
    alike: np.ndarray

    def rarest(self, mention: str, n: int) -> list[str]:
        """The `n` rarest 3-grams of a mention that names have."""
        numbers = self.vocabulary.text(mention).numbers
        order = numbers[np.argsort(self.vocabulary.counts[numbers], kind="stable")][:n]
        return [_letters(gram) for gram in self.vocabulary.grams[order].tolist()]


def main(
    records: Annotated[list[Path], typer.Argument(help="JSON lists of names")],
    corpus: Annotated[Path, typer.Option(help="Docs with gold mentions")],
    output: Annotated[Path, typer.Option(help="Markdown file")],
    mentions: Annotated[int, typer.Option(help="Distinct mentions to search for")] = 200,
) -> None:
    """Print and write what each search finds and what it costs."""
    names = _read(records, corpus, mentions)
    lines = ["| | MB | CPU seconds to build | CPU ms a mention | the best found | of the best 64 |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    with TemporaryDirectory() as folder:
        for build in (_exhaustive, _ours, _fts5, _tantivy):
            start = process_time()
            size, engines = build(names, Path(folder) / build.__name__)
            built = process_time() - start
            lines += [_row(names, label, engine, size, built) for label, engine in engines.items()]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(names.forms):,} names, {len(names.mentions)} mentions\n" + "\n".join(lines))


def _read(records: list[Path], corpus: Path, mentions: int) -> Names:
    forms = list(dict.fromkeys(normalized(name) for path in records for name in srsly.read_json(path)))
    docs = read_docs(corpus, spacy.blank("en").vocab)
    own = list(dict.fromkeys(normalized(m.span.text) for doc in docs for m in gold_mentions(doc)))[:mentions]
    grams, owner = name_grams(forms)
    known, start, counts = np.unique(grams, return_index=True, return_counts=True)
    vocabulary = Vocabulary(known, counts, len(forms))
    weights = vocabulary.weights(known)
    norms = np.sqrt(np.bincount(owner, np.repeat(weights, counts), minlength=len(forms)))
    alike = np.zeros((len(own), len(forms)), dtype=np.float32)
    for products, mention in zip(alike, own, strict=True):
        text = vocabulary.text(mention)
        for number in text.numbers.tolist():
            products[owner[start[number] : start[number] + counts[number]]] += weights[number]
        products /= norms * text.norm
    return Names(forms, own, vocabulary, alike)


def _row(names: Names, label: str, engine: Engine, size: int, built: float) -> str:
    start = process_time()
    found = [np.fromiter(engine(mention), dtype=np.int64) for mention in names.mentions]
    ms = 1000 * (process_time() - start) / len(found)
    first, share = [], []
    for alike, own in zip(names.alike, found, strict=True):
        right = np.sort(alike)[::-1][:K] - 1e-6
        scores = np.sort(alike[own])[::-1][:K]
        first.append(len(own) > 0 and scores[0] >= right[0])
        share.append((scores >= right[-1]).sum() / K)
    return f"| {label} | {size / 1e6:.0f} | {built:.0f} | {ms:.2f} | {np.mean(first):.3f} | {np.mean(share):.3f} |"


def _exhaustive(names: Names, folder: Path) -> tuple[int, dict[str, Engine]]:
    return _of_kb(names, folder, EVERY, "all names compared")


def _ours(names: Names, folder: Path) -> tuple[int, dict[str, Engine]]:
    return _of_kb(names, folder, 0, "the file of names")


def _of_kb(names: Names, folder: Path, most: int, label: str) -> tuple[int, dict[str, Engine]]:
    """A KB with the tables of names up to `most` of them."""
    tables.MOST_NAMES = most
    kb = KnowledgeBase.create(folder, (Entity(str(i), form) for i, form in enumerate(names.forms)))
    kb.names.match("").best(K)
    return kb.size_bytes, {f"{label} (with the records)": lambda mention: kb.names.match(mention).best(K)}


def _fts5(names: Names, folder: Path) -> tuple[int, dict[str, Engine]]:
    folder.mkdir()
    connection = sqlite3.connect(folder / "names.db")
    trigrams = "tokenize = 'trigram case_sensitive 1', detail = none, content = '', columnsize = 0"
    connection.execute(f"CREATE VIRTUAL TABLE names USING fts5 (form, {trigrams})")
    connection.executemany(
        "INSERT INTO names (rowid, form) VALUES (?, ?)", ((i, f" {form} ") for i, form in enumerate(names.forms))
    )
    connection.execute("INSERT INTO names (names) VALUES ('optimize')")
    connection.commit()

    def engine(n: int) -> Engine:
        def find(mention: str) -> Iterable[int]:
            quoted = ('"' + gram.replace('"', '""') + '"' for gram in names.rarest(mention, n))
            query = " OR ".join(quoted) or '"   "'
            return [row for (row,) in connection.execute("SELECT rowid FROM names WHERE names MATCH ?", (query,))]

        return find

    return _bytes(folder), {f"FTS5, the {n} rarest 3-grams": engine(n) for n in (3, 5)}


def _tantivy(names: Names, folder: Path) -> tuple[int, dict[str, Engine]]:
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("form", stored=False, tokenizer_name="3-grams", index_option="basic")
    builder.add_integer_field("number", stored=True)
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder))
    grams = tantivy.Tokenizer.ngram(min_gram=3, max_gram=3, prefix_only=False)
    index.register_tokenizer("3-grams", tantivy.TextAnalyzerBuilder(grams).build())
    writer = index.writer(300_000_000, 1)
    for i, form in enumerate(names.forms):
        writer.add_document(tantivy.Document(form=f" {form} ", number=i))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def engine(n: int) -> Engine:
        def find(mention: str) -> Iterable[int]:
            terms = [tantivy.Query.term_query(schema, "form", gram, "basic") for gram in names.rarest(mention, n)]
            query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
            return [searcher.doc(place)["number"][0] for _, place in searcher.search(query, DEEPER).hits]

        return find

    best = f"the {DEEPER} best by BM25"
    return _bytes(folder), {f"tantivy, {best}, all 3-grams": engine(EVERY), "the same, the 8 rarest": engine(8)}


def _letters(gram: int) -> str:
    return "".join(chr(gram >> shift & ((1 << BITS) - 1)) for shift in (2 * BITS, BITS, 0))


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    typer.run(main)
