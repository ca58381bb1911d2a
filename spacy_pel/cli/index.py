"""`spacy pel index`: encode a KB with a pipeline's entity tower and write the pipeline with its KB."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from ..errors import PelError
from .app import command
from .engines import EngineName, engine_named
from .out_file import check_apart
from .pipeline import CODE, GPU_ID, check_new_pipeline, load_linker, warnings_shown, with_kb_of_its_own
from .printing import echo, msg

if TYPE_CHECKING:
    from ..linking.encoding import EncodeByWorkers
    from ..pipeline.linker import PelLinker


class Vectors(str, Enum):
    ENTITY = "entity"
    NAMES = "names"
    BOTH = "both"


@command("index")
def index(
    pipeline: str = typer.Argument(..., help="A trained pipeline with a pel_linker: a folder or an installed package"),
    kb: Path = typer.Argument(..., help="A KB folder that `build-kb` wrote; it is left as it is"),
    out: Path = typer.Argument(..., help="The folder to write the pipeline to"),
    code: CODE = None,
    gpu_id: GPU_ID = -1,
    index_type: str = typer.Option(
        "auto", "--index-type", help="flat (exact), a FAISS factory string, or auto: exact for small KBs"
    ),
    vectors: Vectors | None = typer.Option(
        None, "--vectors", help="What to encode: entity (its text), names, or both; default: the setting of PIPELINE"
    ),
    force: bool = typer.Option(False, "--force", "-F", help="Replace the pipeline at OUT"),
    engine: EngineName = typer.Option("local", help="Who runs the workers"),
    workers: int = typer.Option(1, "--n-process", "--processes", min=1, help="Workers that encode, each on a CPU"),
) -> None:
    """Encode every entity of KB, or every name, with PIPELINE, and write the pipeline, with its KB, to OUT.

    With --processes, or --engine ray, workers encode shards of the KB, which become one index: the same vectors as from
    one process. All machines of a Ray cluster must see PIPELINE under the same path. OUT is written whole or not at
    all.

    Example: python -m spacy pel index training/model-last kb linker

    Example: python -m spacy pel index training/model-last kb linker --vectors both

    Example: python -m spacy pel index training/model-last kb linker --index-type "IVF1,PQ96x4fs,Refine(SQfp16)"

    Example: python -m spacy pel index training/model-last kb linker --engine ray --processes 64
    """
    from ..kb.knowledge_base import KnowledgeBase

    check_new_pipeline(out, force)
    check_apart([("KB", kb), ("OUT", out)])
    is_shared = workers > 1 or engine is EngineName.ray
    if is_shared and gpu_id >= 0:
        raise PelError("--processes and --engine ray encode on CPUs: leave out --gpu-id.")
    source = KnowledgeBase(kb)
    nlp, name, linker = load_linker(pipeline, needs_kb=False, gpu_id=gpu_id, code=code)
    start = perf_counter()
    threshold, linker.tuned = linker.tuned.nil_threshold, linker.tuned.without_nil()
    with warnings_shown():
        linker.set_kb(source)  # what is warned of it names KB, not the copy in a folder that will be gone
    with with_kb_of_its_own(nlp, name, linker, source, out, indexes=()) as folder:
        if vectors is not None:
            with warnings_shown():
                linker.vectors = nlp.get_pipe_config(name)["vectors"] = vectors.value
        encode = _by_workers(pipeline, code, linker, engine, workers, folder) if is_shared else None
        linker.index(index_type=index_type, encode=encode)
    seconds = perf_counter() - start
    if threshold is not None:
        msg.warn(f"Dropped the NIL threshold {threshold:.4f}, tuned with another index: run `spacy pel tune-nil`")
    msg.good(f"{out}: {len(source):,} entities in {seconds:.0f} s ({len(source) / seconds:,.0f} a second)")


def _by_workers(
    pipeline: str, code: Path | None, linker: PelLinker, engine: EngineName, workers: int, folder: Path
) -> EncodeByWorkers:
    from ..linking.encoding import EncodeBlock, EncodeByWorkers

    task = EncodeBlock(pipeline, code, linker.fingerprints)
    start = partial(engine_named, engine.value, task, workers)
    return EncodeByWorkers(start, workers, folder, on_death=lambda what: echo(f"⚠ {what}.", err=True))
