"""Bring one input file into assets/: from the data folder, else from its public origin, whole or cut."""

from __future__ import annotations

import hashlib
import heapq
import os
import re
import shutil
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from spacy_pel.errors import PelError
from spacy_pel.files.atomic import new_file, write_atomically
from spacy_pel.files.json_lines import numbered_lines, parse_object, required, texts
from spacy_pel.files.lines import opened


def main(
    local: Annotated[Path, typer.Argument(help="The file in the data folder; taken if it exists")],
    dest: Annotated[Path, typer.Argument(help="Where to write it: .pubtator, .jsonl or .obo")],
    origin: Annotated[str, typer.Option(help="URL of the public origin; used if LOCAL does not exist")] = "",
    member: Annotated[str, typer.Option(help="The file's path inside the origin, if that is a zip")] = "",
    pmids: Annotated[str, typer.Option(help="URL of the list of abstract ids that make up this split")] = "",
    limit: Annotated[
        int, typer.Option(help="Keep this many abstracts, the first, or entities, drawn, besides the gold ones; 0: all")
    ] = 0,
    gold: Annotated[list[Path] | None, typer.Option(help="PubTator file whose gold ids a cut KB keeps")] = None,
    seed: Annotated[int, typer.Option(help="Of the draw of entities")] = 0,
    types: Annotated[
        list[str] | None, typer.Option(help="Of a .jsonl KB, keep entities that have one of these")
    ] = None,
    fold: Annotated[int, typer.Option(help="Every FOLD-th abstract is held out of this file; 0: none")] = 0,
    held_out: Annotated[bool, typer.Option(help="Write the abstracts that --fold holds out, not the rest")] = False,
) -> None:
    """Write DEST from LOCAL or from the origin, whole or cut: all of it or nothing."""
    try:
        if local.is_dir():
            raise PelError(f"{local} is a folder: name the file in it")
        source = local if local.is_file() else download(local, dest, origin)
        if dest.suffix == ".jsonl" and (types or limit):
            write_records(source, dest, set(types or ()), limit, gold_ids(gold or []), seed)
            typer.echo(f"{dest}: {dest.stat().st_size:,} bytes from {source}")
            return
        text = read_text(source, member if source != local else "")
        if pmids and source != local:
            wanted = set(read_text(download(local, dest, pmids)).split())
            text = join_abstracts(a for a in abstracts(text) if a.split("|", 1)[0] in wanted)
        if dest.suffix == ".obo":
            text = cut_ontology(text, limit, gold_ids(gold or []), seed) if limit else text
        elif limit or fold:
            kept = (a for i, a in enumerate(abstracts(text)) if not fold or (i % fold == 0) == held_out)
            text = join_abstracts(a for i, a in enumerate(kept) if not limit or i < limit)
        if not text.strip():
            raise PelError(f"{source}: is empty, or nothing in it was asked for: look at the file and at the options")
        write_atomically(dest, text.encode("utf-8"))
    except (OSError, ValueError) as error:
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
            if size is not None and file.tell() != size:
                raise OSError(f"only {file.tell():,} of {size:,} bytes came")
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
    data = read_bytes(path, member)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PelError(f"{path}:{line}: is not UTF-8 ({error.reason}): convert the file to UTF-8") from error


def read_bytes(path: Path, member: str) -> bytes:
    """The same, as bytes."""
    if path.suffix != ".zip":
        with opened(path) as file:
            return file.read()
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    except (EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise PelError(f"{path}: {member!r} cannot be read ({error}): remove the file and fetch it again") from error


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
        annotations = [fields for line in read_text(path).splitlines() if len(fields := line.split("\t")) >= 6]
        if not annotations:
            raise PelError(f"{path}: has no annotation: give --gold a PubTator file with annotations")
        ids.update(part.removeprefix("UMLS:") for fields in annotations for part in fields[5].split("|"))
    return ids


def write_records(source: Path, dest: Path, types: set[str], limit: int, keep: set[str], seed: int) -> None:
    """Write the lines of a JSONL file whose records have one of `types`, if any is given; with a limit those with an id
    in `keep`, and `limit` of the others, drawn."""

    def wanted() -> Iterator[tuple[str, bytes]]:
        return of_types(source, types) if types else ((id_, line) for id_, _, line in records(source))

    chosen = keep | drawn((id_ for id_, _ in wanted() if id_ not in keep), limit, seed) if limit else None
    with new_file(dest) as file:
        file.writelines(line.rstrip(b"\r\n") + b"\n" for id_, line in wanted() if chosen is None or id_ in chosen)


def of_types(source: Path, types: set[str]) -> Iterator[tuple[str, bytes]]:
    """(id, line) of the records that have one of `types`.

    Raises:
        PelError: At the end, if there is none; and as for `records`.
    """
    found = False
    for id_, own, line in records(source):
        if not types.isdisjoint(own):
            found = True
            yield id_, line
    if not found:
        raise PelError(f"{source}: no entity is of the types {', '.join(sorted(types))}")


def records(source: Path) -> Iterator[tuple[str, tuple[str, ...], bytes]]:
    """(id, types, line) of the records of a JSONL file.

    Raises:
        PelError: Naming the line that holds none, or at the end, if none does.
    """
    number = 0
    for number, line in numbered_lines(source):
        try:
            record = parse_object(line)
            found = required(record, "id"), texts(record, "types"), line
        except PelError as error:
            raise PelError(f"{source}:{number}: {error}") from error
        yield found
    if not number:
        raise PelError(f"{source}: is empty: give a file with one JSON object a line")


def drawn(ids: Iterable[str], n: int, seed: int) -> set[str]:
    """`n` of the ids, the same ones everywhere: those whose hashes with `seed` are the lowest."""
    return set(heapq.nsmallest(n, ids, key=lambda id_: hashlib.sha256(f"{seed} {id_}".encode()).digest()))


def cut_ontology(text: str, limit: int, keep: set[str], seed: int) -> str:
    """The terms of an OBO file with an id in `keep`, `limit` of the others, drawn, and all that is no term."""
    header, *stanzas = re.split(r"\n(?=\[)", text)
    own = [known_ids(stanza) if stanza.startswith("[Term]") else [] for stanza in stanzas]
    others = drawn((ids[0] for ids in own if ids and keep.isdisjoint(ids)), limit, seed)
    chosen = keep | others
    kept = (stanza for stanza, ids in zip(stanzas, own, strict=True) if not ids or not chosen.isdisjoint(ids))
    return "\n".join([header, *kept]) + "\n"


def known_ids(stanza: str) -> list[str]:
    """The id of a term, and those of the terms that were merged into it."""
    return re.findall(r"^(?:id|alt_id): (\S+)", stanza, re.MULTILINE)


if __name__ == "__main__":
    typer.run(main)
