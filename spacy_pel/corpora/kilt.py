"""KILT's entity linking, such as AIDA: JSON lines with one marked mention each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object, required, text
from ..kb.readers.faults import Faults
from ..kb.readers.rows import check_once
from ..mentions.gold import GOLD_GROUP
from ..mentions.offsets import UNTYPED, expanded_span
from ..mentions.tokens import check_length, tokenised

SHAPE = (
    '{"id": …, "input": "… [START_ENT] mention [END_ENT] …", "output": [{"provenance": [{"wikipedia_id": …}, …]}, …]}'
)
START, END = "[START_ENT]", "[END_ENT]"


def read_kilt_mentions(
    path: Path, nlp: Language, *, strict: bool = False, skipped: Counter[str] | None = None
) -> Iterator[Doc]:
    """Yield a Doc for each line: its `input` without the marks and the spaces that part them from the mention.

    The mention is in `doc.spans["gold_mentions"]` and `doc.ents`. Its `kb_id_` is the `wikipedia_id` of the output,
    "A|B" where there are several, and empty where a line has no output, as in a test set without answers. The id of the
    line goes to `doc.user_data["id"]`. A line that is not right, or has the id of an earlier one, is left out with a
    warning.

    Args:
        path: The file, plain or `.gz`.
        nlp: Gives the tokenizer and the vocabulary.
        strict: Such a line is an error.
        skipped: Where those that are left out are counted.

    Raises:
        PelError: More than one line in a hundred is left out (with the first of them), or the file has none.
    """
    faults = Faults(path, Counter() if skipped is None else skipped, strict=strict, unit="mentions")
    lines: dict[str, int] = {}

    def parse(number: int, line: bytes) -> Doc:
        doc = _doc(nlp, parse_object(line, SHAPE))
        if id_ := doc.user_data["id"]:
            check_once(lines, id_, number, "mention")
        return doc

    yield from faults.parsed(numbered_lines(path), parse)
    if not faults.good:
        raise PelError(f"{path} holds no mention: write {SHAPE}, an object a line")


def _doc(nlp: Language, record: dict[str, Any]) -> Doc:
    left, start, rest = required(record, "input", f"write {SHAPE}").partition(START)
    mention, end, right = rest.partition(END)
    mention = mention.strip()
    if not (start and end and mention) or START in rest or END in left + right:
        raise PelError(f'"input" does not mark one mention; write {START} before it and {END} behind it')
    whole = f"{left}{mention}{right}"
    check_length(nlp, whole)
    doc = tokenised(nlp, whole)
    stop = len(left) + len(mention)
    span = expanded_span(doc, whole, len(left), stop, label=UNTYPED, kb_id="|".join(_ids(record)))
    doc.spans[GOLD_GROUP] = [span]
    doc.ents = [span]
    doc.user_data["id"] = text(record, "id")
    return doc


def _ids(record: dict[str, Any]) -> list[str]:
    outputs = record.get("output") or []
    sources = [source for output in _objects(outputs) for source in _objects(output.get("provenance") or [])]
    ids = list(dict.fromkeys(filter(None, (text(source, "wikipedia_id") for source in sources))))
    if outputs and not ids:
        raise PelError(f'"output" names no "wikipedia_id"; write {SHAPE}')
    return ids


def _objects(values: Any) -> list[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise PelError(f'"output" and its "provenance" are no lists of objects; write {SHAPE}')
    return values
