"""Folders of linked shards, compared byte for byte; and whether each text is in them once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer


def main(
    source: Annotated[Path, typer.Argument(help="Folder with the shards that were linked")],
    folders: Annotated[list[Path], typer.Argument(help="The first is what the others are compared with")],
    output: Annotated[Path, typer.Option(help="JSON to write")],
) -> None:
    """Compare folders. Nothing is allowed to differ: neither shards nor their reports nor the manifest."""
    first, *others = folders
    found: dict[str, Any] = {"of": first.name, **texts(source, first)}
    found["others"] = {other.name: compared(first, other) for other in others}
    srsly.write_json(output, found)
    typer.echo(f"{first}: {found['texts']:,} texts, {found['lost']} lost, {found['twice']} twice")
    for name, result in found["others"].items():
        typer.echo(
            f"{name}: {result['files']:,} files, {result['bytes']:,} bytes, {len(result['differ'])} files differ"
        )
    if found["lost"] or found["twice"] or any(result["differ"] for result in found["others"].values()):
        raise typer.Exit(1)


def files(folder: Path) -> dict[str, Path]:
    """The files of a folder by their names in it, temporary ones left out."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path for path in paths}


def shards(folder: Path) -> dict[str, Path]:
    """Those of `files` that are shards."""
    return {name: path for name, path in files(folder).items() if not name.startswith("_")}


def compared(one: Path, other: Path) -> dict[str, Any]:
    """How many files and bytes two folders have, and the names of the files that are not the same in both."""
    mine, theirs = files(one), files(other)
    both = mine.keys() & theirs.keys()
    differ = (mine.keys() ^ theirs.keys()) | {n for n in both if mine[n].read_bytes() != theirs[n].read_bytes()}
    size = sum(path.stat().st_size for path in theirs.values())
    return {"files": len(theirs), "bytes": size, "differ": sorted(differ)}


def texts(source: Path, linked: Path) -> dict[str, int]:
    """How many texts are linked, how many of the source are not, and how many are more than once."""
    wanted, found = (Counter(id for path in shards(folder).values() for id in ids(path)) for folder in (source, linked))
    twice = sum(number > wanted[id] for id, number in found.items())
    return {"texts": found.total(), "lost": (wanted - found).total(), "twice": twice}


def ids(path: Path) -> list[str]:
    """The ids of a shard."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path, columns=["id"])["id"].to_pylist()
    return [record["id"] for record in srsly.read_jsonl(path)]


if __name__ == "__main__":
    typer.run(main)
