"""`spacy pel verify`: checks a pipeline and its KB, file by file."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker
from .printing import msg


@command("verify")
def verify(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB; it is left as it is")],
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Check the pel_linker of PIPELINE: the hash of each of its files, that both encoders give vectors, that those of
    the KB are of this encoder, and the KB from end to end, as `kb verify` does. Of a pel_ranker behind it, check the
    files, and that it gives scores.

    Example: python -m spacy pel verify linker
    """
    from tqdm import tqdm

    from ..components import find_ranker
    from ..pipeline.verifying import has_hashes, verify_linker, verify_ranker

    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    ranker = find_ranker(nlp)
    kb = linker.require_kb()
    with tqdm(total=len(kb), desc="Records", unit=" entities") as bar:
        problems = verify_linker(linker, bar.update)
    problems += [] if ranker is None else verify_ranker(ranker[1])
    if problems:
        raise PelError(
            f"{pipeline}: {'; '.join(problems)}: copy it again, or index it again if only vectors are wrong."
        )
    checked = name if ranker is None else f"{name}, its {ranker[0]}"
    msg.good(f"{pipeline}: its {checked} and {len(kb):,} entities, all is well")
    if not has_hashes(nlp.path / name):
        msg.warn(f"{name} was saved by an earlier version, without hashes of its files: load it and save it again")
