"""Linked texts, as `spacy pel link` has written them, read again for what is said of their mentions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..corpora.docbin import SUFFIX, read_docs
from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object, text
from ..files.lines import unpacked_suffix
from ..files.parquet import parquet_batches, parquet_schema
from ..kb.entity import NIL
from ..mentions.links import links_of, mentions_of

LINES, PARQUET = ".jsonl", ".parquet"
READ = (LINES, PARQUET, SUFFIX)
ROWS = 1000  # of Parquet, that are read together
REMEDY = "link it again"
SHAPE = '{"text": …, "ents": [{"text": …, "label": …, "kb_id": …, "kb_prob": …}, …]}, as `spacy pel link` writes it'


def files_in(path: Path) -> list[Path]:
    """The file at `path`, or those with links in the folder there, sorted by name.

    Raises:
        PelError: There is none.
    """
    if not path.exists():
        raise PelError(f"{path} does not exist; name what `spacy pel link` wrote")
    if not path.is_dir():
        return [path]
    files = sorted(one for one in path.rglob("*") if _is_read(one) and one.is_file())
    if not files:
        raise PelError(f"no {', '.join(READ)} file under {path}: name a folder that `spacy pel link` wrote to")
    return files


def linked_texts(path: Path, vocab: Vocab, spans_key: str | None) -> Iterator[list[dict[str, Any]]]:
    """The mentions of each text in a file, as far as they are linked or NIL: their text, label, kb_id and kb_prob.

    Args:
        path: A `.jsonl` file, plain or `.gz`, a `.parquet` file, or a `.spacy` file.
        vocab: For `.spacy` files.
        spans_key: For `.spacy` files: the group of spans that was linked; None: the entities.

    Raises:
        PelError: It has another suffix, or a line or row is no linked text; with file and line.
    """
    if path.suffix.lower() == PARQUET:
        return _of_rows(path)
    if path.suffix.lower() == SUFFIX:
        return (_of_doc(doc, spans_key) for doc in read_docs(path, vocab))
    if unpacked_suffix(path) == LINES:
        return _of_lines(path)
    raise PelError(f"{path} is none of {', '.join(READ)}; name what `spacy pel link` wrote")


def _is_read(path: Path) -> bool:
    return path.suffix.lower() in READ or unpacked_suffix(path) == LINES


def _of_doc(doc: Doc, spans_key: str | None) -> list[dict[str, Any]]:
    found = zip(mentions_of(doc, spans_key), links_of(doc, spans_key), strict=True)
    return [
        {"text": span.text, "label": span.label_, "kb_id": link.kb_id, "kb_prob": link.probability}
        for span, link in found
        if link.kb_id
    ]


def _of_lines(path: Path) -> Iterator[list[dict[str, Any]]]:
    for number, line in numbered_lines(path):
        try:
            yield _ents(parse_object(line, SHAPE))
        except PelError as error:
            raise PelError(f"{path}:{number}: {error}") from error


def _of_rows(path: Path) -> Iterator[list[dict[str, Any]]]:
    if "ents" not in parquet_schema(path, REMEDY).names:
        raise PelError(f'{path}: has no column "ents"; name what `spacy pel link` wrote')
    batches = parquet_batches(path, REMEDY, rows=ROWS, columns=["ents"])
    for number, row in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1):
        try:
            yield _ents(row)
        except PelError as error:
            raise PelError(f"{path}, row {number:,}: {error}") from error


def _ents(record: dict[str, Any]) -> list[dict[str, Any]]:
    ents = record.get("ents")
    if not isinstance(ents, list) or not all(isinstance(ent, dict) for ent in ents):
        raise PelError(f'"ents" is no list of links; write {SHAPE}')
    return [_ent(ent, i) for i, ent in enumerate(ents) if text(ent, "kb_id") or ent.get("is_nil")]


def _ent(ent: dict[str, Any], number: int) -> dict[str, Any]:
    probability = ent.get("kb_prob")
    if probability is not None and not (type(probability) in (int, float) and 0 <= probability <= 1):
        raise PelError(f'"ents"[{number}]: "kb_prob" is {probability!r}; it is a number from 0 to 1, or null')
    values = {key: text(ent, key) for key in ("text", "label", "kb_id")}
    return values | {"kb_id": values["kb_id"] or NIL, "kb_prob": probability}
