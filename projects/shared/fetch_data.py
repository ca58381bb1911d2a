"""Bring one input file into assets/: from the data folder, else from its public origin, whole or cut."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from spacy_pel.files.atomic import write_atomically


def main(
    local: Annotated[Path, typer.Argument(help="The file in the data folder; taken if it exists")],
    dest: Annotated[Path, typer.Argument(help="Where to write it: .pubtator, .jsonl or .obo")],
    origin: Annotated[str, typer.Option(help="URL of the public origin; used if LOCAL does not exist")] = "",
    member: Annotated[str, typer.Option(help="The file's path inside the origin, if that is a zip")] = "",
    pmids: Annotated[str, typer.Option(help="URL of the list of abstract ids that make up this split")] = "",
    limit: Annotated[int, typer.Option(help="Keep this many abstracts, or entities besides the gold ones; 0: all")] = 0,
    gold: Annotated[list[Path] | None, typer.Option(help="PubTator file whose gold ids a cut KB keeps")] = None,
    types: Annotated[
        list[str] | None, typer.Option(help="Of a .jsonl KB, keep entities that have one of these")
    ] = None,
    fold: Annotated[int, typer.Option(help="Every FOLD-th abstract is held out of this file; 0: none")] = 0,
    held_out: Annotated[bool, typer.Option(help="Write the abstracts that --fold holds out, not the rest")] = False,
) -> None:
    """Write DEST from LOCAL or from the origin, whole or cut: all of it or nothing."""
    try:
        source = local if local.is_file() else download(local, dest, origin)
        text = read_text(source, member if source != local else "")
        if pmids and source != local:
            wanted = set(read_text(download(local, dest, pmids)).split())
            text = join_abstracts(a for a in abstracts(text) if a.split("|", 1)[0] in wanted)
        if dest.suffix == ".jsonl":
            text = of_types(text, set(types)) if types else text
            text = cut_kb(text, limit, gold_ids(gold or [])) if limit else text
        elif dest.suffix == ".obo":
            text = cut_ontology(text, limit, gold_ids(gold or [])) if limit else text
        elif limit or fold:
            kept = (a for i, a in enumerate(abstracts(text)) if not fold or (i % fold == 0) == held_out)
            text = join_abstracts(a for i, a in enumerate(kept) if not limit or i < limit)
        write_atomically(dest, text.encode("utf-8"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        typer.secho(f"✘ {dest}: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{dest}: {len(text.encode()):,} bytes from {source}")


def download(local: Path, dest: Path, origin: str) -> Path:
    """Fetch `origin` into the folder of `dest`, once. Its name there says what it is of: origins may have files of one
    name."""
    if not origin:
        raise FileNotFoundError(
            f"{local} is not there and this file has no public origin yet: "
            "point --vars.data to a folder that holds it, laid out as the README of the project says"
        )
    name, dot, suffixes = origin.rsplit("/", 1)[-1].partition(".")
    archive = dest.parent / f"{name}-{short_hash(origin)}{dot}{suffixes}"
    if archive.is_file():
        return archive
    dest.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(archive.name + ".partial")
    try:
        with urllib.request.urlopen(origin, timeout=60) as response, partial.open("wb") as file:
            size = int(response.headers.get("Content-Length") or 0) or None
            with tqdm.wrapattr(response, "read", total=size, desc=archive.name) as stream:
                shutil.copyfileobj(stream, file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        message = f"{local} is not there and {origin} cannot be fetched ({error})"
        raise OSError(f"{message}: point --vars.data to a folder that holds it") from error
    os.replace(partial, archive)
    return archive


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read_text(path: Path, member: str = "") -> str:
    """The text of a plain or gzipped file, or of one member of a zip."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(member).decode("utf-8")
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def abstracts(text: str) -> Iterator[str]:
    """The abstracts of a PubTator file: blocks between blank lines."""
    for block in re.split(r"\n\s*\n", text):
        if block.strip():
            yield block.strip("\n")


def join_abstracts(blocks: Iterator[str]) -> str:
    return "".join(f"{block}\n\n" for block in blocks)


def gold_ids(paths: list[Path]) -> set[str]:
    """Every id in the annotations of PubTator files; composite ids count as their parts."""
    ids: set[str] = set()
    for path in paths:
        for line in read_text(path).splitlines():
            fields = line.split("\t")
            if len(fields) >= 6:
                ids.update(part.removeprefix("UMLS:") for part in fields[5].split("|"))
    return ids


def of_types(text: str, types: set[str]) -> str:
    """The records that have one of `types`.

    Raises:
        ValueError: If there is none.
    """
    kept = [line for line in records_of(text) if not types.isdisjoint(json.loads(line).get("types") or ())]
    if not kept:
        raise ValueError(f"no entity is of the types {', '.join(sorted(types))}")
    return "".join(f"{line}\n" for line in kept)


def cut_kb(text: str, limit: int, keep: set[str]) -> str:
    """The records with an id in `keep`, and the first `limit` of the others, in the order of the file."""
    return "".join(f"{line}\n" for line in cut(records_of(text), lambda line: json.loads(line)["id"] in keep, limit))


def records_of(text: str) -> list[str]:
    """The lines of a JSONL file that hold a record."""
    return [line for line in text.split("\n") if line.strip()]


def cut_ontology(text: str, limit: int, keep: set[str]) -> str:
    """What `cut_kb` gives, of an OBO file."""
    header, *stanzas = re.split(r"\n(?=\[)", text)
    known = re.compile(r"^(?:id|alt_id): (\S+)", re.MULTILINE)
    return "\n".join([header, *cut(stanzas, lambda stanza: not keep.isdisjoint(known.findall(stanza)), limit)]) + "\n"


def cut(records: list[str], is_kept: Callable[[str], bool], limit: int) -> Iterator[str]:
    """Those that are kept, and the first `limit` of the others."""
    others = 0
    for record in records:
        known = is_kept(record)
        others += not known
        if known or others <= limit:
            yield record


if __name__ == "__main__":
    typer.run(main)
