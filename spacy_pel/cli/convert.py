"""`spacy pel convert`: an annotated corpus → a DocBin with gold mentions."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from wasabi import msg

from ..errors import PelError
from .app import command

if TYPE_CHECKING:
    from ..corpora.pubtator import PubTatorCounts

LINES_SHOWN = 5


class Format(str, Enum):
    """The formats that can be read."""

    pubtator = "pubtator"


@command("convert")
def convert(
    source: Annotated[Path, typer.Argument(help="The annotated corpus")],
    out: Annotated[Path, typer.Argument(help="The file to write; an existing one is replaced", metavar="OUT.spacy")],
    format: Annotated[Format, typer.Option(help="What SOURCE is written in")],
    lang: Annotated[str, typer.Option(help="Language whose tokenizer is used")] = "en",
    strip_prefix: Annotated[str, typer.Option(help="Taken off every id, say UMLS:")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Stop where offsets do not hold their mention")] = False,
) -> None:
    """Write the documents of an annotated corpus, with every gold mention and its id, as a .spacy file.

    Example: python -m spacy pel convert CDR_DevelopmentSet.PubTator.txt corpus/dev.spacy --format pubtator
    """
    import spacy
    from tqdm import tqdm

    from ..corpora.docbin import write_docs
    from ..corpora.pubtator import PubTatorReader

    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise PelError(f"--lang {lang}: spaCy has no tokenizer for it, or its extra package is missing") from error
    reader = PubTatorReader(source, nlp, strict=strict, strip_prefix=strip_prefix)
    write_docs(out, tqdm(reader, desc="Converting", unit=" documents", disable=None))
    _print_counts(reader.counts)
    msg.good(f"Wrote {out}")


def _print_counts(counts: PubTatorCounts) -> None:
    rows = [
        ("Documents", counts.documents),
        ("Mentions", counts.mentions),
        ("  NIL", counts.nil),
        ("  unannotated", counts.unannotated),
        ("  with several ids", counts.composite),
        ("  widened to token boundaries", counts.widened),
        ("Distinct ids", len(counts.ids)),
        ("Left out: offsets do not hold the text", len(counts.mismatched)),
        ("Left out: only whitespace", counts.blank),
        ("Left out: relation lines", counts.relations),
        ("Left out: columns after the sixth", counts.extra_columns),
    ]
    msg.table([(label, f"{count:,}") for label, count in rows], aligns=("l", "r"), max_col=40)
    if counts.mismatched:
        lines = ", ".join(map(str, counts.mismatched[:LINES_SHOWN]))
        more = ", …" if len(counts.mismatched) > LINES_SHOWN else ""
        msg.warn(f"{len(counts.mismatched)} mentions do not match the text at their offsets: lines {lines}{more}")
