"""A KB of UMLS size: built, indexed, opened, searched and changed, with time and memory of each.

The vectors are those of really encoded names with seeded jitter, the queries those of real mentions; the records are
made up. Each command is a process of its own, so that its peak of memory is its own, and adds to one JSON file.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from tqdm import tqdm

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.best import best
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names.name_index import NameMatch
from spacy_pel.kb.numbering import EntityRows
from spacy_pel.kb.readers import read
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoding import encode_entities, encode_mention_rows
from spacy_pel.pipeline.kb_of_pipeline import kb_ignored

BLOCK, JITTER, SEED, ROUNDS = 50_000, 0.3, 0, 5
BATCHES, LINKED, EXACTLY, CHANGED = (1, 32, 1024), 100_000, 2_000, 100
KB, FINGERPRINT = Path("kb"), "made up"  # of the project; of its vectors of entities
TYPES = tuple(f"T{number:03}" for number in range(1, 22))

app = typer.Typer(help=__doc__)
Pipeline = Annotated[Path, typer.Argument(help="A trained pipeline with a pel_linker")]
Work = Annotated[Path, typer.Argument(help="Folder for vectors")]
Figures = Annotated[Path, typer.Argument(help="JSON file that the figures are added to")]


@app.command()
def encode(
    pipeline: Pipeline,
    corpus: Annotated[Path, typer.Argument(help="Docs with gold mentions")],
    records: Annotated[list[Path], typer.Argument(help="JSONL of entities, whose names and aliases are encoded")],
    work: Annotated[Path, typer.Option(help="Folder for vectors")],
    limit: Annotated[int, typer.Option(help="Names to encode; 0: all")] = 0,
) -> None:
    """Encode the names of real KBs and the mentions of a real corpus."""
    nlp = load(pipeline)
    model = nlp.get_pipe("pel_linker").model
    forms = dict.fromkeys(form for path in records for e in read("jsonl", path) for form in (e.name, *e.aliases))
    names = list(islice(forms, limit or None))
    entities = (Entity(str(i), name) for i, name in enumerate(names))
    with tqdm(total=len(names), desc="Names", unit="name") as bar:
        blocks = []
        while block := list(islice(entities, BLOCK)):
            blocks.append(encode_entities(model, block).astype(np.float16))
            bar.update(len(block))
    spans = [mention.span for doc in read_docs(corpus, nlp.vocab) for mention in gold_mentions(doc)]
    work.mkdir(parents=True, exist_ok=True)
    np.save(work / "names.npy", np.concatenate(blocks))
    np.save(work / "mentions.npy", encode_mention_rows(model, row_builder(model).mentions(spans)))
    srsly.write_json(work / "names.json", names)


@app.command()
def store(work: Work, figures: Figures, count: Annotated[int, typer.Option(help="Entities")] = 2_400_000) -> None:
    """Build the KB without vectors, and begin a new file of figures: those of another KB would stay in it."""
    figures.unlink(missing_ok=True)
    names = srsly.read_json(work / "names.json")
    start = perf_counter()
    kb = KnowledgeBase.create(KB, tqdm(made_up(names, count), total=count, desc="Records"), overwrite=True)
    add_figures(
        figures,
        {
            "entities": len(kb),
            "aliases": kb.meta["counts"]["aliases"],
            "store: seconds to build": perf_counter() - start,
            "store: MB of memory at the peak, with the names": peak_mb(),
            "store: MB on disk": kb.size_bytes / 1e6,
        },
    )


@app.command()
def index(
    work: Work,
    figures: Figures,
    index_type: Annotated[str, typer.Option(help="flat, auto, or a FAISS factory string")] = "auto",
) -> None:
    """Give the KB jittered vectors."""
    names = np.load(work / "names.npy")
    kb = KnowledgeBase(KB)
    start = perf_counter()
    blocks = jittered(names, len(kb))
    kb.index(blocks, dim=names.shape[1], metric="cosine", fingerprint=FINGERPRINT, index_type=index_type)
    add_figures(
        figures,
        {
            "index": kb.entity_index(FINGERPRINT).index_type,
            "index: seconds to build": perf_counter() - start,
            "index: MB of memory at the peak, mapped files counted": peak_mb(),
            "index: MB on disk": kb.entity_index(FINGERPRINT).size_bytes / 1e6,
        },
    )


@app.command()
def search(
    pipeline: Pipeline,
    corpus: Annotated[Path, typer.Argument(help="Docs with gold mentions")],
    work: Work,
    figures: Figures,
    n_probe: Annotated[int, typer.Option(help="Cells to visit; 0: as the index was built")] = 0,
    k: Annotated[int, typer.Option(help="Candidates a mention")] = 64,
) -> None:
    """Open the KB, search it, compare with exact search, add and remove entities."""
    nlp = load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    spans = [m.span for doc in read_docs(corpus, nlp.vocab) for m in gold_mentions(doc)][: max(BATCHES)]
    rows = row_builder(linker.model).mentions(spans)
    encoding = timed(lambda: encode_mention_rows(linker.model, rows))
    mentions = np.load(work / "mentions.npy")
    queries = mentions[np.random.default_rng(SEED).integers(len(mentions), size=LINKED)]
    before, start = memory_mb(), perf_counter()
    kb = KnowledgeBase(KB)
    found: dict[str, Any] = {"open: milliseconds": 1000 * (perf_counter() - start)}
    search = partial(kb.entity_index(FINGERPRINT).search, n_probe=n_probe or None)
    for size in BATCHES:
        seconds = timed(lambda size=size: kb.ids(search(queries[:size], k)[1][:, :5]))
        found[f"search and ids: ms a mention, batches of {size:,}"] = 1000 * seconds / size
    found["search / encoding, batches of 1,024"] = seconds / encoding
    for start_row in tqdm(range(0, LINKED, max(BATCHES)), desc="Linking"):
        kb.ids(search(queries[start_row : start_row + max(BATCHES)], k)[1][:, :5])
    after = memory_mb()
    for kind in ("anonymous", "file-backed"):
        found[f"memory: {kind} MB more after {LINKED:,} mentions"] = after[kind] - before[kind]
    exact = exact_rows(np.load(work / "names.npy"), len(kb), queries[:EXACTLY], k)
    _, close = search(queries[:EXACTLY], k)
    found["top-1 as by exact search"] = float(np.mean(close[:, 0] == exact[:, 0]))
    shared = [len(set(a) & set(b)) / k for a, b in zip(close.tolist(), exact.tolist(), strict=True)]
    found[f"exact top-1 among the {k} found"] = float(np.mean((close == exact[:, :1]).any(axis=1)))
    found[f"share of the exact top {k} found"] = float(np.mean(shared))
    found |= change(linker, kb)
    add_figures(figures, found)


@app.command()
def names(
    corpus: Annotated[Path, typer.Argument(help="Docs with gold mentions")],
    work: Work,
    figures: Figures,
    k: Annotated[int, typer.Option(help="Candidates a mention")] = 64,
    checked: Annotated[int, typer.Option(help="Mentions whose candidates are compared with those of all names")] = 100,
) -> None:
    """Search the names for the forms of mentions, and compare these with the names of candidates found otherwise."""
    docs = read_docs(corpus, spacy.blank("en").vocab)
    forms = list(dict.fromkeys(m.span.text for doc in docs for m in gold_mentions(doc)))[: max(BATCHES)]
    before = memory_mb()
    kb = KnowledgeBase(KB)
    rows = np.random.default_rng(SEED).integers(len(kb), size=(len(forms), k))
    start = perf_counter()
    kb.names.match(forms[0]).best(k)
    found: dict[str, Any] = {
        "names": kb.meta["counts"]["entities"] + kb.meta["counts"]["aliases"],
        "names: MB on disk beside the records": kb.meta["names"].get("file", {}).get("size", 0) / 1e6,
        "names: milliseconds to the first": 1000 * (perf_counter() - start),
    }
    named = timed(lambda: [kb.named(form) for form in forms])
    match = timed(lambda: [kb.names.match(form) for form in forms])
    search = timed(lambda: [kb.names.match(form).best(k) for form in forms])
    matches = [kb.names.match(form) for form in forms]
    score = timed(lambda: [one.scores(own) for one, own in zip(matches, rows, strict=True)])
    found["names: share of the mentions that are one"] = float(np.mean([len(kb.named(form)) > 0 for form in forms]))
    found["names: ms a mention to read the entities of that name"] = 1000 * named / len(forms)
    found["names: ms a mention to match it"] = 1000 * match / len(forms)
    found[f"names: ms a mention to match it and find {k} candidates"] = 1000 * search / len(forms)
    found[f"names: ms a mention to compare it with {k} candidates"] = 1000 * score / len(forms)
    after = memory_mb()
    for kind in ("anonymous", "file-backed"):
        found[f"names: {kind} MB more"] = after[kind] - before[kind]
    add_figures(figures, found | agreement(kb, matches[:: max(1, len(matches) // checked)], k))


@app.command()
def table(figures: Figures, output: Annotated[Path, typer.Argument(help="Markdown file")]) -> None:
    """Write and print the figures."""
    lines = ["| | |", "| --- | ---: |"]
    for name, value in srsly.read_json(figures).items():
        lines.append(
            f"| {name} | {value if isinstance(value, str) else format(value, ',.4g' if value < 1e3 else ',.0f')} |"
        )
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def load(pipeline: Path) -> spacy.Language:
    """The pipeline without its own KB."""
    with kb_ignored():
        return spacy.load(pipeline)


def made_up(names: list[str], count: int) -> Iterator[Entity]:
    rng = np.random.default_rng(SEED)
    for i in range(count):
        form = f"{names[i % len(names)]} {i // len(names)}".removesuffix(" 0")
        aliases = tuple(f"{names[j]}, {form}" for j in rng.integers(len(names), size=2))
        definition = f"{form}: a made-up record, as long as the definition of a concept might be." if i % 6 == 0 else ""
        yield Entity(f"C{i:07}", form, aliases, (TYPES[i % len(TYPES)],), definition, source="made up")


def jittered(names: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Unit vectors around those of the names, in blocks: `JITTER` is the length of what is added."""
    for start in range(0, count, BLOCK):
        rows = np.arange(start, min(start + BLOCK, count))
        rng = np.random.default_rng((SEED, start))
        noise = rng.standard_normal((len(rows), names.shape[1]), dtype=np.float32) * (JITTER / np.sqrt(names.shape[1]))
        vectors = names[rows % len(names)].astype(np.float32) + noise
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def exact_rows(names: np.ndarray, count: int, queries: np.ndarray, k: int) -> np.ndarray:
    scores, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for number, block in enumerate(tqdm(jittered(names, count), total=-(-count // BLOCK), desc="Exact search")):
        new_scores, new_rows = VectorIndex.build(block).search(queries, k)
        scores, rows = best(np.hstack([scores, new_scores]), np.hstack([rows, new_rows + number * BLOCK]), k)
    return rows


def agreement(kb: KnowledgeBase, matches: list[NameMatch], k: int) -> dict[str, float]:
    """What a search by names finds of what a comparison with all of them would, by its scores."""
    first, share = [], []
    for match in tqdm(matches, desc="All names"):
        blocks = (np.arange(start, min(start + BLOCK, len(kb))) for start in range(0, len(kb), BLOCK))
        every = np.concatenate([match.scores(EntityRows(block))[:, 0] for block in blocks])
        best = np.sort(every)[::-1][:k]
        found = np.sort(every[match.best(k)])[::-1][:k]
        if best[0] > 0:
            first.append(len(found) > 0 and found[0] == best[0])
            share.append(np.sum(found >= best[-1]) / k if best[-1] > 0 else np.nan)
    return {
        "names: first entity as by comparing all": float(np.mean(first)),
        f"names: share of the best {k} found": float(np.nanmean(share)),
    }


def change(linker: Any, kb: KnowledgeBase) -> dict[str, float]:
    """Encode and add `CHANGED` entities in this process, and remove them again."""
    entities = [
        Entity(f"new{i}", f"a new entity with the number {i}", definition="Not known before.") for i in range(CHANGED)
    ]
    start = perf_counter()
    vectors = encode_entities(linker.model, entities)
    kb.add(entities, NewVectors(FINGERPRINT, vectors))
    added = perf_counter() - start
    assert kb.ids(kb.entity_index(FINGERPRINT).search(vectors, 1)[1]).ravel().tolist() == [
        entity.id for entity in entities
    ]
    start = perf_counter()
    kb.remove([entity.id for entity in entities])
    return {f"add {CHANGED}: seconds": added, f"remove {CHANGED}: seconds": perf_counter() - start}


def timed(run: Any) -> float:
    """The median of some runs, in seconds, after one that does not count."""
    seconds = []
    for _ in range(ROUNDS + 1):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return median(seconds[1:])


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_mb() -> dict[str, float]:
    """What is resident now (Linux)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "anonymous": int(status["RssAnon"].split()[0]) / 1024,
        "file-backed": int(status["RssFile"].split()[0]) / 1024,
    }


def add_figures(path: Path, figures: dict[str, Any]) -> None:
    known = srsly.read_json(path) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(path, known | figures)
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    app()
