"""Annotated abstracts as the shards of a larger corpus: repeated, each time under another id."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from enum import Enum
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.util import minibatch

from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.errors import PelError
from spacy_pel.files.atomic import write_atomically


class Format(str, Enum):
    jsonl = "jsonl"
    parquet = "parquet"


class Mentions(str, Enum):
    find = "find"
    gold = "gold"


def main(
    out: Annotated[Path, typer.Argument(help="Folder for the shards; what is there goes")],
    corpora: Annotated[list[Path], typer.Argument(help="PubTator files")],
    n: Annotated[int, typer.Option(min=1, help="Abstracts")] = 20_000,
    size: Annotated[int, typer.Option(min=1, help="Abstracts in a shard")] = 125,
    format: Annotated[Format, typer.Option(help="Of the shards")] = Format.jsonl,
    mentions: Annotated[Mentions, typer.Option(help="gold: write those of the annotators too")] = Mentions.find,
) -> None:
    """Write N abstracts to shards in OUT, as {"id", "text"} and, of gold mentions, "ents"."""
    try:
        abstracts = list(read(corpora, mentions is Mentions.gold))
    except (OSError, PelError) as error:
        typer.secho(f"✘ {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    shutil.rmtree(out, ignore_errors=True)
    for number, shard in enumerate(minibatch(islice(repeated(abstracts), n), size)):
        write(out / f"{number:05}.{format.value}", shard)
    typer.echo(f"{out}: {n:,} abstracts in {number + 1:,} shards, of {len(abstracts):,} different texts")


def read(corpora: list[Path], with_gold: bool) -> Iterator[dict[str, Any]]:
    """The abstracts of PubTator files."""
    nlp = spacy.blank("en")
    for path in corpora:
        for doc in PubTatorReader(path, nlp):
            record: dict[str, Any] = {"text": doc.text}
            if with_gold:
                record["ents"] = [
                    {"start": ent.start_char, "end": ent.end_char, "label": ent.label_} for ent in doc.ents
                ]
            yield record


def repeated(abstracts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The abstracts again and again, each time with a new id."""
    for round in count():
        for number, abstract in enumerate(abstracts):
            yield {"id": f"{round}-{number}", **abstract}


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """Write a shard in the format of its suffix."""
    if path.suffix == ".parquet":
        from pyarrow import Table, parquet

        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(Table.from_pylist(records), path)
        return
    write_atomically(path, "".join(json.dumps(record) + "\n" for record in records).encode())


if __name__ == "__main__":
    typer.run(main)
