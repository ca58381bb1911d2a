"""`spacy pel card`: a description of a pipeline with its KB, for those who install it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, folder_of, load_linker, warn_of_package
from .printing import echo, msg


@command("card")
def card(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    metrics: Annotated[Path | None, typer.Option(help="What `evaluate --output` wrote")] = None,
    code: CODE = None,
) -> None:
    """Describe the KB, the settings and the measures of a pipeline in its meta.json, of which `spacy package` and the
    hubs make the page that users read. Notes of your own there stay; an earlier card is replaced.

    Example: python -m spacy pel card linker --metrics metrics/dev.json
    """
    import json

    import srsly

    from ..files.atomic import write_atomically
    from ..reports.model_card import model_card, with_card

    if metrics and not metrics.is_file():
        raise PelError(f"{metrics} is not there: name the file of `spacy pel evaluate --output`")
    try:
        measured: Any = srsly.read_json(metrics) if metrics else None
    except ValueError as error:
        raise PelError(f"{metrics} is no JSON: name the file of `spacy pel evaluate --output`") from error
    if measured is not None and not (isinstance(measured, dict) and "recall_at_1" in measured):
        raise PelError(f"{metrics} has no measures: name the file of `spacy pel evaluate --output`")
    nlp, _, linker = load_linker(pipeline, code=code)
    file = folder_of(pipeline) / "meta.json"
    meta: Any = srsly.read_json(file)
    meta["notes"] = with_card(meta.get("notes") or "", model_card(nlp, linker, measured))
    warn_of_package(pipeline)
    write_atomically(file, json.dumps(meta, indent=2).encode())
    echo(meta["notes"])
    msg.good(f"Wrote it into {file}, as `notes`")
