"""`spacy pel index`: encode a KB with a pipeline's entity tower and write the pipeline with its KB."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from time import perf_counter

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker
from .printing import msg


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
) -> None:
    """Encode every entity of KB, or every name, with PIPELINE, and write the pipeline, with its KB, to OUT.

    Example: python -m spacy pel index training/model-last kb linker

    Example: python -m spacy pel index training/model-last kb linker --vectors both

    Example: python -m spacy pel index training/model-last kb linker --index-type "IVF1,PQ96x4fs,Refine(SQfp16)"
    """
    from ..files.folders import new_folder
    from ..kb.knowledge_base import KnowledgeBase

    _check_out(out, force)
    source = KnowledgeBase(kb)
    nlp, name, linker = load_linker(pipeline, needs_kb=False, gpu_id=gpu_id, code=code)
    start = perf_counter()
    with new_folder(out.absolute()) as folder:
        (folder / name).mkdir()
        threshold, linker.tuned = linker.tuned.nil_threshold, linker.tuned.without_nil()
        linker.set_kb(source.copy_to(folder / name / "kb", indexes=()))
        if vectors is not None:
            linker.vectors = nlp.get_pipe_config(name)["vectors"] = vectors.value
        linker.index(index_type=index_type)
        linker.save_kb = nlp.get_pipe_config(name)["save_kb"] = True
        nlp.to_disk(folder)
    seconds = perf_counter() - start
    if threshold is not None:
        msg.warn(f"Dropped the NIL threshold {threshold:.4f}, tuned with another index: run `spacy pel tune-nil`")
    msg.good(f"{out}: {len(source):,} entities in {seconds:.0f} s ({len(source) / seconds:,.0f} a second)")


def _check_out(out: Path, force: bool) -> None:
    if not out.exists():
        return
    if not (out / "config.cfg").is_file():
        raise PelError(f"{out} is there already and is no pipeline; name another folder.")
    if not force:
        raise PelError(f"{out} is there already; name another folder or add --force to replace it.")
