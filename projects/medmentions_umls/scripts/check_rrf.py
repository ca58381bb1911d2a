"""Check the UMLS reader on a whole release: its entities against JSON lines of the same concepts, their types against
MRSTY. Prints how many concepts differ in what, with the first of them, and exits with status 1 if any does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from spacy_pel.kb.knowledge_base import Entity
from spacy_pel.kb.readers.jsonl import read_jsonl
from spacy_pel.kb.readers.umls import read_umls

Difference = tuple[str, str]


def main(
    meta: Annotated[Path, typer.Argument(help="META folder of the release")],
    records: Annotated[Path, typer.Argument(help="JSON lines of the same concepts, in the order of their ids")],
    shown: Annotated[int, typer.Option(help="Differences to print of each kind")] = 3,
) -> None:
    """Compare ids, names, aliases and definitions with RECORDS, TUIs and type names with MRSTY.RRF."""
    types = types_of(meta / "MRSTY.RRF")
    found: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    pairs = list(zip_longest(read_umls(meta), read_jsonl(records)))
    for read, expected in pairs:
        for what, example in differences(read, expected, types):
            found[what] += 1
            examples[what] = [*examples[what], example][:shown]
    for what in ("id", "name", "aliases", "definition", "types", "type names"):
        typer.echo(f"{what:<12}{found[what]:>8,} of {len(pairs):,} differ")
        for example in examples[what]:
            typer.echo(f"    {example}")
    raise typer.Exit(bool(found))


def differences(read: Entity | None, expected: Entity | None, types: dict[str, dict[str, str]]) -> Iterator[Difference]:
    """What differs, and how."""
    if read is None or expected is None or read.id != expected.id:
        yield "id", f"{read and read.id} instead of {expected and expected.id}"
        return
    pairs = {
        "name": (read.name, expected.name),
        "aliases": (read.aliases, expected.aliases),
        "definition": (read.definition, expected.definition),
        "types": (set(read.types), set(types[read.id])),
        "type names": (set(zip(read.types, read.type_names, strict=True)), set(types[read.id].items())),
    }
    for what, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield what, f"{read.id}: {ours!r} instead of {theirs!r}"


def types_of(path: Path) -> dict[str, dict[str, str]]:
    """CUI → TUI → name, split here once more and not by the reader that is checked."""
    types: dict[str, dict[str, str]] = defaultdict(dict)
    with path.open(encoding="utf-8") as file:
        for line in file:
            cui, tui, _, name, *_ = line.split("|")
            types[cui][tui] = name
    return types


if __name__ == "__main__":
    typer.run(main)
