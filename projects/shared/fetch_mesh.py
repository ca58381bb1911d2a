"""Bring the MeSH records into assets/: from the data folder, else from NLM's public XML, whole or cut."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import fetch_data
import srsly
import typer
from tqdm import tqdm

from spacy_pel.errors import PelError
from spacy_pel.files.atomic import new_file
from spacy_pel.kb.readers.mesh import read_mesh


def main(
    local: Annotated[Path, typer.Argument(help="JSON lines in the data folder; taken if they exist")],
    dest: Annotated[Path, typer.Argument(help="Where to write the records: .jsonl")],
    origin: Annotated[list[str], typer.Option(help="URL of descriptors or supplementary records, .xml or .gz")],
    limit: Annotated[int, typer.Option(help="Keep this many entities, drawn, besides the gold ones; 0: all")] = 0,
    gold: Annotated[list[Path] | None, typer.Option(help="PubTator file whose gold ids a cut KB keeps")] = None,
) -> None:
    """Write DEST from LOCAL, or from the files at the origins, which are kept in mesh/ beside DEST, those of a release
    in a folder of their own."""
    if not local.is_file():
        local = convert(local, dest.parent / "mesh" / fetch_data.short_hash(" ".join(origin)), origin)
    fetch_data.main(local, dest, limit=limit, gold=gold)


def convert(local: Path, folder: Path, origins: list[str]) -> Path:
    """The records of the files at `origins`, as JSON lines in `folder`, written where they are not newer than these."""
    converted = folder / "mesh.jsonl"
    try:
        sources = [fetch_data.download(local, converted, url) for url in origins]
        if not (converted.is_file() and converted.stat().st_mtime >= max(path.stat().st_mtime for path in sources)):
            with new_file(converted) as file:
                for record in tqdm(read_mesh(folder), desc="Converting", unit=" records"):
                    file.write(f"{srsly.json_dumps(asdict(record))}\n".encode())
    except (OSError, PelError) as error:
        typer.secho(f"✘ {folder}: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    return converted


if __name__ == "__main__":
    typer.run(main)
