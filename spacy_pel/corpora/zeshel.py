"""The mentions of ZESHEL with the documents that they stand in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object, required, text
from ..kb.readers.faults import Faults
from ..kb.readers.rows import check_once
from ..kb.readers.zeshel import SHAPE, worlds_in
from ..mentions.gold import GOLD_GROUP

MENTION = '{"context_document_id": …, "corpus": …, "start_index": …, "end_index": …, "text": …, "label_document_id": …}'
DOCUMENTS = "documents"


class _Mention(NamedTuple):
    line: int
    document: str
    world: str
    start: int
    end: int
    text: str
    label: str
    category: str


@dataclass
class _Read:
    """What is read, and the faults that are found on the way."""

    nlp: Language
    mentions: Faults
    strict: bool
    skipped: Counter[str]
    documents: dict[str, str] = field(default_factory=dict)  # where each stands


def read_zeshel_mentions(
    path: Path, nlp: Language, *, strict: bool = False, skipped: Counter[str] | None = None
) -> Iterator[Doc]:
    """Yield a Doc for each document that a mention of `path` stands in, world by world.

    The documents are those of `documents/`, the folder beside that of `path`: `mentions/val.json` reads
    `documents/lego.json` for a mention whose `corpus` is "lego". Its white-space tokens are the words of the Doc, of
    which `start_index` and `end_index` (that of the last word) count. The mentions go to `doc.spans["gold_mentions"]`,
    the longest that do not overlap to `doc.ents` too: the label is the world, the `kb_id_` the `label_document_id`, the
    `id_` the `category`. The id of the document goes to `doc.user_data["document_id"]`.

    A mention that is not right is left out with a warning: the words at its indexes are not its text, its document is
    not there, its `mention_id` is that of an earlier one, or its line is no such object. So is a document whose id is
    that of an earlier one.

    Args:
        path: A file of JSON lines, plain or `.gz`.
        nlp: Gives the vocabulary.
        strict: Such a mention is an error.
        skipped: Where those that are left out are counted.

    Raises:
        PelError: More than one mention in a hundred is left out, or one document (with the first of them); the file has
            no mention, or there is no folder of documents.
    """
    skipped = Counter() if skipped is None else skipped
    folder = path.absolute().parent.parent / DOCUMENTS
    if not folder.is_dir():
        raise PelError(f"{folder} is not there: lay ZESHEL out as it is published, {DOCUMENTS}/ beside mentions/")
    read = _Read(nlp, Faults(path, skipped, strict=strict, unit="mentions"), strict, skipped)
    files, wanted = worlds_in(folder), _by_world(read.mentions)
    for world, own in wanted.items():
        if world in files:
            yield from _docs(read, files[world], own)
        for mention in (mention for left in own.values() for mention in left):
            what = f'no document "{mention.document}"' if world in files else f'no world "{world}"'
            _refuse(read.mentions, mention, PelError(f"{folder} has {what}; put it there"))
    read.mentions.close()


def _by_world(faults: Faults) -> dict[str, dict[str, list[_Mention]]]:
    """The mentions by world and document."""
    found: dict[str, dict[str, list[_Mention]]] = defaultdict(lambda: defaultdict(list))
    for mention in faults.parsed(numbered_lines(faults.path), partial(_mention, {})):
        found[mention.world][mention.document].append(mention)
    if not found:
        raise PelError(f"{faults.path} holds no mention: write {MENTION}, an object a line")
    return found


def _mention(lines: dict[str, int], number: int, line: bytes) -> _Mention:
    """The mention on a line; `lines` has those of the ids so far."""
    record = parse_object(line, MENTION)
    need = partial(required, record, hint=f"write {MENTION}")
    start, end = record.get("start_index"), record.get("end_index")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise PelError(f"start_index {start!r} and end_index {end!r} are no words; count from 0, the last one included")
    mention = _Mention(
        number,
        need("context_document_id"),
        need("corpus"),
        start,
        end,
        need("text"),
        need("label_document_id"),
        text(record, "category"),
    )
    if id_ := text(record, "mention_id"):
        check_once(lines, id_, number, "mention")
    return mention


def _docs(read: _Read, file: Path, wanted: dict[str, list[_Mention]]) -> Iterator[Doc]:
    """Of each document in `file` that is `wanted` the Doc; its mentions are taken from there."""
    documents = Faults(file, read.skipped, strict=read.strict, unit="documents")
    for id_, words in documents.parsed(numbered_lines(file), partial(_document, read, file, wanted)):
        if mentions := wanted.pop(id_, None):
            yield _doc(read, id_, words, mentions)


def _document(
    read: _Read, file: Path, wanted: dict[str, list[_Mention]], number: int, line: bytes
) -> tuple[str, list[str]]:
    """The id of a document and its words; only those that are wanted are parted."""
    record = parse_object(line, SHAPE)
    id_, found = required(record, "document_id", f"write {SHAPE}"), text(record, "text")
    check_once(read.documents, id_, f"{file}:{number}", "document")
    return id_, found.split() if id_ in wanted else []


def _doc(read: _Read, id_: str, words: list[str], mentions: list[_Mention]) -> Doc:
    doc = Doc(read.nlp.vocab, words=words, spaces=[i + 1 < len(words) for i in range(len(words))])
    spans = []
    for mention in mentions:
        found = " ".join(words[mention.start : mention.end + 1])
        if mention.end >= len(words) or found != mention.text:
            place = f"the words {mention.start} to {mention.end} of document {id_!r} are {found!r}"
            _refuse(read.mentions, mention, PelError(f"{place}, not {mention.text!r}; correct the indexes"))
            continue
        kwargs: dict[str, Any] = {"label": mention.world, "kb_id": mention.label, "span_id": mention.category}
        spans.append(Span(doc, mention.start, mention.end + 1, **kwargs))
    doc.spans[GOLD_GROUP] = spans
    doc.ents = filter_spans(spans)
    doc.user_data["document_id"] = id_
    return doc


def _refuse(faults: Faults, mention: _Mention, error: PelError) -> None:
    """Leave out one that was right so far."""
    faults.good -= 1
    faults.add(mention.line, error)
