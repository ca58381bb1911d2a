"""Memory of a linker in each of the ways that `variants.py` has measured, each in a process of its own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import spacy
import srsly
import typer

from spacy_pel.components import find_linker
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.kinds import VECTORS


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Docs with mentions, which are linked")],
    measured: Annotated[Path, typer.Argument(help="The output folder of variants.py, with its option --vectors")],
    name: Annotated[str, typer.Option(help="Of the trained linker, as it was then")] = "linker",
    limit: Annotated[int, typer.Option(help="Documents")] = 100,
) -> None:
    """Add `anonymous_mb` and `peak_mb` to each NAME-KIND-VARIANT.json of a folder: what is resident and no file once
    the documents are linked, and the peak of the process, mapped files counted (Linux)."""
    for path in sorted(measured.glob(f"{name}-*.json")):
        kind, _, variant = path.stem.removeprefix(f"{name}-").partition("-")
        if kind not in VECTORS:
            continue
        values = srsly.read_json(path)
        setting = {"vectors": kind, "lexical": values["lexical"], "abbreviations": "abbreviations" in variant}
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            memory = process.submit(linked, pipeline, corpus, limit, setting).result()
        srsly.write_json(path, values | memory)
        typer.echo(f"{path}: " + ", ".join(f"{key} {value:,.0f}" for key, value in memory.items()))


def linked(pipeline: Path, corpus: Path, limit: int, setting: dict[str, Any]) -> dict[str, float]:
    """Link documents, and say what memory this process has then."""
    nlp = spacy.load(pipeline)
    _, linker = find_linker(nlp)
    linker.vectors, linker.lexical = setting["vectors"], setting["lexical"]
    linker.resolve_abbreviations = setting["abbreviations"]
    for _ in nlp.pipe(islice(read_docs(corpus, nlp.vocab), limit)):
        pass
    return {"anonymous_mb": memory_mb("RssAnon"), "peak_mb": memory_mb("VmHWM")}


def memory_mb(key: str) -> float:
    """Of this process now (Linux): "RssAnon" or, its peak with mapped files, "VmHWM"."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) / 1024


if __name__ == "__main__":
    typer.run(main)
