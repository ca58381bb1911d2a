"""JSON lines with gold mentions, as `spacy pel link` writes links: an output that was corrected is a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import filter_spans

from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object
from ..files.json_lines import text as text_of
from ..kb.entity import NIL
from ..mentions.given import given_spans
from ..mentions.gold import GOLD_GROUP
from ..mentions.tokens import check_length, tokenised

SHAPE = '{"text": …, "ents": [{"start": …, "end": …, "kb_id": …}, …]}'


def read_linked_lines(path: Path, nlp: Language, *, strip_prefix: str = "") -> Iterator[Doc]:
    """Yield a Doc for each line of a `.jsonl` file.

    All mentions go to `doc.spans["gold_mentions"]`, the longest ones that do not overlap to `doc.ents` too. Their
    `kb_id` is an id, "A|B" for two that are both right, "NIL" (or `is_nil`), or missing where nobody annotated it.

    Args:
        path: The file, plain or `.gz`.
        nlp: Gives the tokenizer and the vocabulary.
        strip_prefix: Is taken off every id.

    Raises:
        PelError: A line is no such object, or the file has none; with file and line.
    """
    number = 0
    for number, line in numbered_lines(path):
        try:
            yield _doc(nlp, parse_object(line, SHAPE), strip_prefix)
        except PelError as error:
            raise PelError(f"{path}:{number}: {error}") from error
    if not number:
        raise PelError(f"{path} holds no text: write {SHAPE}, an object a line")


def _doc(nlp: Language, record: dict[str, Any], strip_prefix: str) -> Doc:
    if "text" not in record:
        raise PelError(f'"text" is missing; write {SHAPE}')
    text = text_of(record, "text")
    check_length(nlp, text)
    if "ents" not in record:
        raise PelError(f'"ents" is missing; write {SHAPE}, with an empty list where there is no mention')
    doc = tokenised(nlp, text)
    spans = list(given_spans(doc, text, record["ents"]))
    for i, (span, ent) in enumerate(zip(spans, record["ents"], strict=True)):
        if ent.get("is_nil") is True and span.kb_id_ != NIL:
            raise PelError(
                f'"ents"[{i}]: "is_nil" is true, but "kb_id" is "{span.kb_id_}"; make it "NIL", or "is_nil" false'
            )
        parts = (part.removeprefix(strip_prefix).strip() for part in span.kb_id_.split("|"))
        span.kb_id_ = "|".join(filter(None, parts))
    doc.spans[GOLD_GROUP] = spans
    doc.ents = filter_spans(spans)
    return doc
