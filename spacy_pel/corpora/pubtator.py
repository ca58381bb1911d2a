"""PubTator files read into Docs with gold mentions; what could not be taken as it stands is counted.

A document is a title line `pmid|t|title`, an abstract line `pmid|a|abstract`, and one tab-separated line a mention:
`pmid start end text type id`, offsets in characters of title + one space + abstract. Blank lines part the documents.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..errors import PelError
from ..files.lines import numbered
from ..kb.entity import NIL
from ..mentions.gold import GOLD_GROUP
from ..mentions.offsets import expanded_span
from ..mentions.tokens import tokenised

PASSAGE = re.compile(r"(?P<pmid>[^|\t]+)\|(?P<kind>[ta])\|(?P<text>.*)", re.DOTALL)
UNLINKED = ("-1", "-")  # what stands for an id where no concept fits
LINES_SHOWN = 5  # of those that are left out


@dataclass
class PubTatorCounts:
    """What a reader met.

    Attributes:
        documents: Documents.
        mentions: Mentions, without those that were left out.
        nil: Mentions whose id is `-1` or `-`.
        unannotated: Mentions whose id column is empty.
        composite: Mentions with several ids, "A|B".
        widened: Mentions widened to the boundaries of their tokens.
        ids: All ids.
        mismatched: Lines whose offsets do not hold their text, which were left out.
        blank: Mentions of nothing but whitespace, which were left out.
        relations: Relation lines, which were left out.
        extra_columns: Mention lines whose columns after the sixth were left out.
        repeated: Mention lines that are those of an earlier mention of their document, which were left out.
        repeated_documents: First lines of documents with the id of an earlier one, which were left out.
    """

    documents: int = 0
    mentions: int = 0
    nil: int = 0
    unannotated: int = 0
    composite: int = 0
    widened: int = 0
    ids: set[str] = field(default_factory=set)
    mismatched: list[int] = field(default_factory=list)
    blank: int = 0
    relations: int = 0
    extra_columns: int = 0
    repeated: list[int] = field(default_factory=list)
    repeated_documents: list[int] = field(default_factory=list)


class _Mention(NamedTuple):
    line: int
    start: int
    end: int
    text: str
    label: str
    ids: str
    extra_columns: bool
    first_line: int  # the same one, or that of the mention which it repeats


@dataclass
class _Record:
    line: int
    pmid: str
    passages: list[str]
    mentions: list[_Mention] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)  # of the mentions
    relations: int = 0


class PubTatorReader:
    """Iterates over the Docs of a PubTator file, a document at a time; `counts` says what it met so far.

    Every mention goes to `doc.spans["gold_mentions"]`, widened to token boundaries where it must be, its label the type
    and its `kb_id_` the id: `"A|B"` where there are several, `"NIL"` for `-1` or `-`, `""` where the column is empty.
    The longest ones that do not overlap go to `doc.ents` too, and the PMID to `doc.user_data["pmid"]`.

    Attributes:
        path: The file.
        nlp: Gives the tokenizer and the vocabulary.
        strict: A mention whose offsets do not hold its text, a mention line or the id of a document for the second time
            is an error; otherwise it is left out and counted, and a warning names its line.
        strip_prefix: Is taken off every id, say "UMLS:".
        counts: What the reader met.
    """

    def __init__(self, path: Path, nlp: Language, *, strict: bool = False, strip_prefix: str = "") -> None:
        self.path = path
        self.nlp = nlp
        self.strict = strict
        self.strip_prefix = strip_prefix
        self.counts = PubTatorCounts()

    def __iter__(self) -> Iterator[Doc]:
        """Yield the Docs.

        Raises:
            PelError: A line is not PubTator (no title before a mention, a line of another document, offsets that are no
                integers, invalid UTF-8), or the file has no document. The message names file and line.
        """
        self.counts = PubTatorCounts()
        lines: dict[str, int] = {}
        for record in _read_records(self.path):
            before = lines.setdefault(record.pmid, record.line)
            if before == record.line:
                yield self._make_doc(record)
            else:
                what = f"the id {record.pmid!r} is that of the document in line {before}: give each its own"
                self._leave_out(record.line, what, self.counts.repeated_documents)
        self._warn_of("mentions do not match the text at their offsets", self.counts.mismatched)
        self._warn_of("mentions are those of an earlier line of their document", self.counts.repeated)
        self._warn_of("documents have the id of an earlier one", self.counts.repeated_documents)
        if not self.counts.documents:
            raise PelError(f"{self.path} holds no document: a PubTator document starts with a line `pmid|t|title`")

    def _make_doc(self, record: _Record) -> Doc:
        text = " ".join(record.passages)
        doc = tokenised(self.nlp, text)
        spans = [span for mention in record.mentions if (span := self._make_span(doc, text, mention)) is not None]
        doc.spans[GOLD_GROUP] = spans
        doc.ents = filter_spans(spans)
        doc.user_data["pmid"] = record.pmid
        self.counts.documents += 1
        self.counts.relations += record.relations
        return doc

    def _make_span(self, doc: Doc, text: str, mention: _Mention) -> Span | None:
        if mention.first_line < mention.line:
            what = f"the mention is that of line {mention.first_line}: remove one of the lines"
            self._leave_out(mention.line, what, self.counts.repeated)
            return None
        self.counts.extra_columns += mention.extra_columns
        found = text[max(mention.start, 0) : max(mention.end, 0)]
        if mention.start < 0 or found != mention.text:
            what = f"offsets {mention.start}-{mention.end} hold {found!r}, not {mention.text!r}: correct the line"
            self._leave_out(mention.line, what, self.counts.mismatched)
            return None
        if not found.strip():
            self.counts.blank += 1
            return None
        kb_id = self._kb_id(mention.ids)
        span = expanded_span(doc, text, mention.start, mention.end, label=mention.label, kb_id=kb_id)
        self.counts.mentions += 1
        self.counts.widened += span.text != found.strip()
        return span

    def _leave_out(self, line: int, what: str, counted: list[int]) -> None:
        if self.strict:
            raise PelError(f"{self.path}:{line}: {what}, or leave such lines out by not asking for --strict")
        counted.append(line)

    def _warn_of(self, what: str, lines: list[int]) -> None:
        """Name the first of `lines`, if there are any."""
        if lines:
            first = ", ".join(map(str, lines[:LINES_SHOWN])) + ", …" * (len(lines) > LINES_SHOWN)
            warnings.warn(f"{self.path}: {len(lines)} {what}: lines {first}; they are left out.", stacklevel=3)

    def _kb_id(self, column: str) -> str:
        parts = [part.strip().removeprefix(self.strip_prefix) for part in column.split("|")]
        ids = list(dict.fromkeys(part for part in parts if part not in ("", *UNLINKED, NIL)))
        self.counts.ids.update(ids)
        self.counts.composite += len(ids) > 1
        if ids:
            return "|".join(ids)
        is_nil = any(parts)
        self.counts.nil += is_nil
        self.counts.unannotated += not is_nil
        return NIL if is_nil else ""


def _read_records(path: Path) -> Iterator[_Record]:
    record: _Record | None = None
    for number, line in _read_lines(path):
        passage = PASSAGE.fullmatch(line)
        if record and (not line.strip() or (passage and passage["kind"] == "t")):
            yield record
            record = None
        if not line.strip():
            continue
        where = f"{path}:{number}"
        if passage and passage["kind"] == "t":
            record = _Record(number, passage["pmid"], [passage["text"]])
            continue
        if record is None:
            raise PelError(f"{where}: no title line `pmid|t|title` comes before this line of its document")
        pmid = passage["pmid"] if passage else line.split("\t", 1)[0]
        if pmid != record.pmid:
            raise PelError(f"{where}: a line of document {pmid!r} inside document {record.pmid!r}")
        if passage:
            record.passages.append(passage["text"])
        elif mention := _parse_mention(line, number, record.lines.setdefault(line, number), where):
            record.mentions.append(mention)
        else:
            record.relations += 1
    if record:
        yield record


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, without their ends. A line ends at a line feed only: titles may hold other controls."""
    for number, raw in numbered(path):
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            raise PelError(f"{path}:{number}: not UTF-8 ({error.reason}): convert the file to UTF-8") from error
        yield number, line.rstrip("\r\n")


def _parse_mention(line: str, number: int, first_line: int, where: str) -> _Mention | None:
    """Read a mention; None for a relation, whose second column is a name instead of an offset: `pmid CID id1 id2`."""
    columns = line.split("\t")
    if len(columns) in (4, 5) and not columns[1].strip().lstrip("-").isdecimal():
        return None
    if len(columns) < 5:
        raise PelError(f"{where}: not a mention (pmid, start, end, text, type, id; tabs between): {line!r}")
    try:
        start, end = int(columns[1]), int(columns[2])
    except ValueError as error:
        raise PelError(f"{where}: the offsets {columns[1]!r} and {columns[2]!r} must be integers") from error
    ids = columns[5] if len(columns) > 5 else ""
    return _Mention(number, start, end, columns[3], columns[4].strip(), ids, len(columns) > 6, first_line)
