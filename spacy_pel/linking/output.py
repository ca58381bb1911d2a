"""Linked texts out: JSON lines, each written whole, or one `.spacy` file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from spacy.tokens import Doc, DocBin, Span

from ..corpora.docbin import SUFFIX
from ..errors import PelError
from ..files.atomic import write_atomically
from ..kb.entity import NIL
from ..mentions.links import Link, links_of, mentions_of

CodesOf = Callable[[str], dict[str, list[str]]]  # from an id to its codes, by vocabulary


def linked_record(
    doc: Doc,
    record: dict[str, Any],
    spans_key: str | None = None,
    *,
    with_prob: bool = False,
    codes_of: CodesOf | None = None,
) -> dict[str, Any]:
    """Return `record` with the mentions of `doc` as its `ents`.

    Args:
        doc: A linked Doc.
        record: A JSON object.
        spans_key: The group of `doc.spans` that was linked; None: the entities.
        with_prob: Give the probability of every link.
        codes_of: Gives the codes of its id.
    """
    found = zip(mentions_of(doc, spans_key), links_of(doc, spans_key), strict=True)
    return {**record, "ents": [_ent_record(span, link, with_prob, codes_of) for span, link in found]}


def _ent_record(ent: Span, link: Link, with_prob: bool, codes_of: CodesOf | None) -> dict[str, Any]:
    record = {
        "start": ent.start_char,
        "end": ent.end_char,
        "text": ent.text,
        "label": ent.label_,
        "kb_id": link.kb_id,
        "is_nil": link.kb_id == NIL,
        "kb_ents": link.candidates,
    }
    if with_prob:
        record["kb_prob"] = link.probability
    if codes_of:
        record["codes"] = codes_of(link.kb_id)
    return record


def json_line(record: dict[str, Any]) -> bytes:
    """`record` as a line of JSON in UTF-8."""
    # UTF-8 has everything but half surrogate pairs, and with a backslash these are what JSON calls them
    return (json.dumps(record, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


class LinkedLines:
    """A JSON object a line. The file is made when the first one is written, and holds whole lines whatever happens.

    Attributes:
        path: The file; None: standard output.
        spans_key: See `linked_record`.
        with_prob: See `linked_record`.
        codes_of: See `linked_record`.
    """

    def __init__(
        self,
        path: Path | None,
        spans_key: str | None = None,
        *,
        with_prob: bool = False,
        codes_of: CodesOf | None = None,
    ) -> None:
        self.path = path
        self.spans_key = spans_key
        self.with_prob = with_prob
        self.codes_of = codes_of
        self._file: BinaryIO | None = sys.stdout.buffer if path is None else None
        self._written = 0

    def write(self, doc: Doc, record: dict[str, Any]) -> None:
        """Write one line.

        Raises:
            BrokenPipeError: Nobody reads any more.
            PelError: The file cannot be written.
        """
        linked = linked_record(doc, record, self.spans_key, with_prob=self.with_prob, codes_of=self.codes_of)
        line = json_line(linked)
        try:
            if self._file is None:
                assert self.path is not None  # standard output is open
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("wb")
            self._file.write(line)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise PelError(
                f"{self.path or 'standard output'} cannot be written: {error.strerror}; name another file."
            ) from error
        self._written += len(line)

    def __enter__(self) -> LinkedLines:
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file; what a write that failed has left of a line is cut off."""
        if self.path is None or self._file is None:
            return
        with suppress(OSError):  # of the write that failed: it is tried once more
            self._file.close()
        if self.path.stat().st_size > self._written:
            os.truncate(self.path, self._written)


class LinkedDocs:
    """The Docs with their user data, in memory until the block ends; nothing is written if it raises, or without any.

    Attributes:
        path: The file, which ends in ".spacy".
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._docs = DocBin(store_user_data=True)

    def write(self, doc: Doc, record: dict[str, Any]) -> None:
        """Take a Doc.

        Raises:
            PelError: The user data of `doc` cannot be stored.
        """
        try:
            self._docs.add(doc)
        except TypeError as error:
            raise PelError(
                f"{self.path}: a component keeps on the Doc what no {SUFFIX} file can hold ({error}); write JSONL, or "
                "change its settings (AbbreviationDetector: make_serializable)"
            ) from error

    def __enter__(self) -> LinkedDocs:
        return self

    def __exit__(self, exception: object, *details: object) -> None:
        if exception is None and len(self._docs):
            write_atomically(self.path, self._docs.to_bytes())
