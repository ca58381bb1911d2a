"""Types of faiss indexes over the same vectors: time to build, size, time of a search, agreement with exact search.

The vectors are those of really encoded names with seeded jitter, as many as asked for, or those of a pipeline's KB, and
then the recall of gold mentions is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated

import numpy as np
import spacy
import typer
from benchmark import EXACTLY, SEED, exact_rows, jittered

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoding import encode_mention_rows

K = 64

app = typer.Typer(help=__doc__)
Types = Annotated[list[str], typer.Argument(help="TYPE, or TYPE@N to visit N cells")]


@app.command()
def jitter(
    work: Annotated[Path, typer.Argument(help="Folder with the vectors of `benchmark.py encode`")],
    output: Annotated[Path, typer.Argument(help="Markdown file")],
    types: Types,
    count: Annotated[int, typer.Option(help="Vectors")] = 600_000,
    n_queries: Annotated[int, typer.Option(help="Mentions")] = EXACTLY,
) -> None:
    """Compare types over jittered vectors of names, for vectors of real mentions."""
    names, mentions = np.load(work / "names.npy"), np.load(work / "mentions.npy")
    queries = mentions[np.random.default_rng(SEED).permutation(len(mentions))][:n_queries]
    exact = exact_rows(names, count, queries, K)
    lines = ["| vectors | index | CPU seconds to build | MB | first as by exact search | CPU ms a mention |"]
    lines.append("| ---: | --- | ---: | ---: | ---: | ---: |")
    for type_ in types:
        built, size, used, rows = measured(lambda: jittered(names, count), count, names.shape[1], queries, type_)
        first = np.mean(rows[:, 0] == exact[:, 0])
        lines.append(f"| {count:,} | `{type_}` | {built:,.0f} | {size:,.0f} | {first:.3f} | {used:.2f} |")
    write(output, lines)


@app.command()
def recall(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    corpus: Annotated[Path, typer.Argument(help="Docs with gold mentions")],
    output: Annotated[Path, typer.Argument(help="Markdown file")],
    types: Types,
) -> None:
    """Compare types over the vectors of a KB: recall@1 and recall@64 of gold mentions by vectors alone."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    index = linker.kb.entity_index(linker.fingerprint)
    gold = [
        m for doc in read_docs(corpus, nlp.vocab) for m in gold_mentions(doc) if any(id in linker.kb for id in m.ids)
    ]
    queries = encode_mention_rows(linker.model, row_builder(linker.model).mentions([mention.span for mention in gold]))
    owners = index.owners()
    lines = ["| index | recall@1 | recall@64 | CPU ms a mention |", "| --- | ---: | ---: | ---: |"]
    for type_ in types:
        _, _, used, numbers = measured(index.blocks, owners.n_vectors, index.dim, queries, type_)
        ids = linker.kb.ids(owners.rows[numbers])
        found = np.array([np.isin(own, mention.ids) for own, mention in zip(ids, gold, strict=True)])
        lines.append(f"| `{type_}` | {found[:, 0].mean():.3f} | {found.any(axis=1).mean():.3f} | {used:.2f} |")
    write(output, lines)


def measured(
    blocks: Callable[[], Iterable[np.ndarray]], count: int, dim: int, queries: np.ndarray, type_: str
) -> tuple[float, float, float, np.ndarray]:
    """CPU seconds to build an index, MB on disk, CPU ms a mention, and the numbers found (q, K)."""
    name, _, cells = type_.partition("@")
    with TemporaryDirectory(dir="assets") as folder:
        path = Path(folder) / f"vectors{VectorIndex.suffix(name)}"
        start = process_time()
        VectorIndex.write(path, blocks(), count=count, dim=dim, index_type=name)
        built = process_time() - start
        index = VectorIndex.open(path)
        n_probe = int(cells) if cells else None
        index.search(queries[:100], K, n_probe=n_probe)
        start = process_time()
        _, numbers = index.search(queries, K, n_probe=n_probe)
        return built, path.stat().st_size / 1e6, 1000 * (process_time() - start) / len(queries), numbers


def write(output: Path, lines: list[str]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    app()
