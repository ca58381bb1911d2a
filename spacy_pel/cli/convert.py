"""`spacy pel convert`: an annotated corpus → one DocBin with gold mentions, or two parts of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..corpora.gold_corpus import Format
from ..errors import PelError
from .app import command
from .out_file import check_apart
from .pipeline import blank, warnings_shown
from .printing import msg
from .vocabulary import print_skipped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spacy.tokens import Doc

    from ..corpora.pubtator import PubTatorCounts

FOLD = 5  # of the documents, one is held out


@command("convert")
def convert(
    source: Annotated[Path, typer.Argument(help="The annotated corpus")],
    out: Annotated[Path, typer.Argument(help="The file to write; an existing one is replaced", metavar="OUT.spacy")],
    format: Annotated[
        Format | None, typer.Option(help="What SOURCE is written in [default: jsonl and spacy by the suffix]")
    ] = None,
    lang: Annotated[str, typer.Option(help="Language whose tokenizer is used")] = "en",
    strip_prefix: Annotated[str, typer.Option(help="Prefix to take off every id, say UMLS:")] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first mention that is not right, as jsonl and spacy always do")
    ] = False,
    held_out: Annotated[Path | None, typer.Option(help="Write every FOLD-th document here instead of to OUT")] = None,
    fold: Annotated[int | None, typer.Option(min=2, help="See --held-out [default: 5]")] = None,
) -> None:
    """Write the documents of an annotated corpus, with every gold mention and its id, as a .spacy file.

    Formats: pubtator; jsonl, as `link` writes it; spacy, a .spacy file or a folder of them, with kb_ids on its
    entities; zeshel, a file of mentions/ with documents/ beside that folder, where the label of a mention is its world;
    and kilt, the JSON lines of KILT's entity linking.

    Example: python -m spacy pel convert CDR_DevelopmentSet.PubTator.txt corpus/dev.spacy --format pubtator

    Example: python -m spacy pel convert corrected.jsonl corpus/mine.spacy

    Example: python -m spacy pel convert zeshel/mentions/val.json corpus/val.spacy --format zeshel
    """
    from collections import Counter

    from tqdm import tqdm

    from ..corpora.docbin import check_docbin, write_docs
    from ..corpora.gold_corpus import check_corpus, format_of, read_gold
    from ..corpora.pubtator import PubTatorReader
    from ..mentions.gold import gold_mentions

    if fold is not None and held_out is None:
        raise PelError(f"--fold {fold}: says which documents are held out; give --held-out FILE too, or leave it out")
    fold = FOLD if fold is None else fold
    check_apart([("SOURCE", source), ("OUT", out), ("--held-out", held_out)])
    for path in filter(None, (out, held_out)):
        check_docbin(path)
    nlp = blank(lang)
    format = format or format_of(source)
    if format is None:
        raise PelError(f"{source}: its suffix does not tell what it is; say --format {_named()}")
    check_corpus(source, format)
    pubtator = PubTatorReader(source, nlp, strict=strict, strip_prefix=strip_prefix)
    reader: Iterable[Doc] = pubtator
    skipped: Counter[str] = Counter()
    if format is not Format.pubtator:
        reader = read_gold(source, nlp, format, strip_prefix=strip_prefix, strict=strict, skipped=skipped)
    with warnings_shown():
        docs = list(tqdm(reader, desc="Converting", unit=" documents", disable=None))
    if not docs:
        raise PelError(f"{source} has no document: there is nothing to write to {out}")
    kept = [doc for i, doc in enumerate(docs) if held_out is None or i % fold]
    if not kept:
        raise PelError(f"{source} has one document: --held-out leaves none for {out}")
    write_docs(out, kept)
    if format is Format.pubtator:
        _print_counts(pubtator.counts)
    print_skipped(skipped)
    msg.good(f"Wrote {len(kept):,} documents to {out}")
    ids = [mention.ids for doc in docs for mention in gold_mentions(doc)]
    if not any(ids):
        msg.warn(f"None of them has a mention with an id: nothing can be learnt or measured from {out}")
    elif format is not Format.pubtator and not all(ids):
        msg.warn(f"{sum(not own for own in ids):,} of {len(ids):,} mentions have no id, and count as unannotated")
    if held_out:
        write_docs(held_out, docs[::fold])
        msg.good(f"Wrote {len(docs[::fold]):,} documents to {held_out}")


def _named() -> str:
    *names, last = (format.value for format in Format)
    return f"{', '.join(names)} or {last}"


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
        ("Left out: mention lines that come again", len(counts.repeated)),
        ("Left out: documents that come again", len(counts.repeated_documents)),
    ]
    msg.table([(label, f"{count:,}") for label, count in rows], aligns=("l", "r"), max_col=40)
