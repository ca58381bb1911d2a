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
from spacy_pel.kb.readers.mesh import read_mesh


def main(
    local: Annotated[Path, typer.Argument(help="JSON lines in the data folder; taken if they exist")],
    dest: Annotated[Path, typer.Argument(help="Where to write the records: .jsonl")],
    origin: Annotated[list[str], typer.Option(help="URL of descriptors or supplementary records, .xml or .gz")],
    limit: Annotated[int, typer.Option(help="Keep this many entities besides the gold ones; 0: all")] = 0,
    gold: Annotated[list[Path] | None, typer.Option(help="PubTator file whose gold ids a cut KB keeps")] = None,
) -> None:
    """Write DEST from LOCAL, or from the files at the origins, which are kept in mesh/ beside DEST."""
    if not local.is_file():
        local = convert(local, dest.parent / "mesh", origin)
    fetch_data.main(local, dest, limit=limit, gold=gold)


def convert(local: Path, folder: Path, origins: list[str]) -> Path:
    """The records of the files at `origins`, as JSON lines in `folder`."""
    try:
        for url in origins:
            fetch_data.download(local, folder / "desc_or_supp", url)
        records = tqdm(read_mesh(folder), desc="Converting", unit=" records")
        srsly.write_jsonl(folder / "mesh.jsonl", map(asdict, records))
    except (OSError, PelError) as error:
        typer.secho(f"✘ {folder}: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    return folder / "mesh.jsonl"


if __name__ == "__main__":
    typer.run(main)
