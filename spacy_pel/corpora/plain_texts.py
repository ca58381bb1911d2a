"""Texts that nobody has annotated: lines of a `.txt` or `.jsonl` file, or Docs of a `.spacy` corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object
from ..files.json_lines import text as text_of
from ..files.lines import decoded, unpacked_suffix
from ..mentions.tokens import check_length, tokenised
from .docbin import read_docs

SHAPE = '{"text": …}'


def read_plain(path: Path, nlp: Language) -> Iterator[Doc]:
    """Yield the texts of a file: one a line of a `.txt`; the "text" of each object of a `.jsonl`, plain or .gz; the
    Docs of a `.spacy` file or a folder of them.

    Raises:
        PelError: It cannot be read so; with the line.
    """
    kind = unpacked_suffix(path)
    if kind not in (".txt", ".jsonl"):
        yield from read_docs(path, nlp.vocab)
        return
    for number, line in numbered_lines(path):
        try:
            text = _text(line, kind)
            check_length(nlp, text)
        except PelError as error:
            raise PelError(f"{path}:{number}: {error}") from error
        yield tokenised(nlp, text)


def _text(line: bytes, kind: str) -> str:
    text = decoded(line).removeprefix("\ufeff") if kind == ".txt" else text_of(parse_object(line, SHAPE), "text")
    return text.strip()
