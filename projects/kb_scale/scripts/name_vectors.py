"""A vector for every name of the KB of UMLS size: built, searched, compared with exact search. Linux.

As in `benchmark.py` the vectors are those of really encoded names with seeded jitter, the queries those of mentions.
"""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Any

import numpy as np
import typer
from benchmark import BATCHES, EXACTLY, KB, SEED, Figures, Work, add_figures, exact_rows, jittered, memory_mb, peak_mb
from tqdm import tqdm

from spacy_pel.kb.index.on_disk import NewIndex
from spacy_pel.kb.kinds import NAMES
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.name_owners import names_and_owners

FINGERPRINT, K = "made up names", 64

app = typer.Typer(help=__doc__)


@app.command()
def index(work: Work, figures: Figures) -> None:
    """Give every distinct name of the KB a vector."""
    names = np.load(work / "names.npy")
    kb = KnowledgeBase(KB)
    _, owners = names_and_owners(kb)
    blocks = jittered(names, owners.n_vectors)
    start, used = perf_counter(), process_time()
    kb.write_indexes([NewIndex(FINGERPRINT, blocks, names.shape[1], "cosine", owners, NAMES)])
    made = kb.entity_index(FINGERPRINT)
    add_figures(
        figures,
        {
            "name vectors": owners.n_vectors,
            "name vectors: index": made.index_type,
            "name vectors: seconds to build": perf_counter() - start,
            "name vectors: seconds of CPU to build": process_time() - used,
            "name vectors: MB of memory at the peak, mapped files counted": peak_mb(),
            "name vectors: MB on disk": made.size_bytes / 1e6,
        },
    )


@app.command()
def search(work: Work, figures: Figures, linked: int = 20_000) -> None:
    """Search them for entities, in batches, and compare with exact search."""
    mentions = np.load(work / "mentions.npy")
    queries = mentions[np.random.default_rng(SEED).permutation(len(mentions))]
    before = memory_mb()
    made = KnowledgeBase(KB).entity_index(FINGERPRINT)
    made.search(queries[:1], K)
    size = max(BATCHES)
    start, used = perf_counter(), process_time()
    for place in tqdm(range(0, linked, size), desc="Linking"):
        made.search(np.take(queries, range(place, place + size), axis=0, mode="wrap"), K)
    n = -(-linked // size) * size
    found: dict[str, Any] = {
        f"name vectors: ms a mention, batches of {size:,}": 1000 * (perf_counter() - start) / n,
        f"name vectors: ms of CPU a mention, batches of {size:,}": 1000 * (process_time() - used) / n,
    }
    after = memory_mb()
    for kind in ("anonymous", "file-backed"):
        found[f"name vectors: {kind} MB more after {n:,} mentions"] = after[kind] - before[kind]
    _, close = made.search(queries[:EXACTLY], K)
    owners = made.owners()
    nearest = exact_rows(np.load(work / "names.npy"), owners.n_vectors, queries[:EXACTLY], 1)
    scores, pairs = owners.spread(np.zeros(nearest.shape, np.float32), nearest)
    best = np.where(np.isfinite(scores), owners.rows[pairs], -2)
    found["name vectors: first entity as by exact search"] = float(np.mean((close[:, :1] == best).any(axis=1)))
    found[f"name vectors: that one among the {K} found"] = float(
        np.mean([bool(set(own) & set(all)) for own, all in zip(best.tolist(), close.tolist(), strict=True)])
    )
    add_figures(figures, found)


if __name__ == "__main__":
    app()
