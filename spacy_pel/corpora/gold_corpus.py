"""A corpus with gold mentions as every command reads it, in each of its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError
from ..files.lines import unpacked_suffix
from .docbin import read_docs
from .kilt import read_kilt_mentions
from .linked_lines import read_linked_lines
from .pubtator import PubTatorReader
from .zeshel import read_zeshel_mentions


class Format(str, Enum):
    """What a corpus may be written in."""

    pubtator = "pubtator"
    jsonl = "jsonl"
    spacy = "spacy"
    zeshel = "zeshel"
    kilt = "kilt"


def format_of(path: Path) -> Format | None:
    """The format that the name of `path` tells, if it tells one; of a folder, `spacy`."""
    kind = "spacy" if path.is_dir() else unpacked_suffix(path).removeprefix(".")
    return Format(kind) if kind in (Format.jsonl.value, Format.spacy.value) else None


def check_corpus(path: Path, format: Format | None) -> None:
    """Raise `PelError` where there is nothing at `path`, or a folder, and the format is that of a file."""
    if not path.exists():
        raise PelError(f"{path} does not exist: name a corpus with gold mentions")
    if path.is_dir() and format not in (None, Format.spacy):
        raise PelError(f"{path} is a folder: name a file of the format {format.value}")


def read_gold(
    path: Path,
    nlp: Language,
    format: Format | None = None,
    *,
    strip_prefix: str = "",
    strict: bool = False,
    skipped: Counter[str] | None = None,
) -> Iterator[Doc]:
    """Yield the Docs of a corpus, with their gold mentions.

    Args:
        path: The file, or a folder of `.spacy` files.
        nlp: Gives the vocabulary and, for texts, the tokenizer.
        format: None: the one that the name tells, else `spacy`.
        strip_prefix: Is taken off every id; for PubTator and JSON lines.
        strict: A mention of ZESHEL or KILT that is not right is an error; else it is left out with a warning.
        skipped: Where those that are left out are counted.

    Raises:
        PelError: It is not there, or cannot be read so.
    """
    format = format or format_of(path)
    check_corpus(path, format)
    match format:
        case Format.pubtator:
            yield from PubTatorReader(path, nlp, strip_prefix=strip_prefix)
        case Format.jsonl:
            yield from read_linked_lines(path, nlp, strip_prefix=strip_prefix)
        case _ if strip_prefix:
            raise PelError(
                f"--strip-prefix is for PubTator and JSON lines, and {path} keeps its ids as they are: leave it "
                "out, or write them without it"
            )
        case Format.zeshel:
            yield from read_zeshel_mentions(path, nlp, strict=strict, skipped=skipped)
        case Format.kilt:
            yield from read_kilt_mentions(path, nlp, strict=strict, skipped=skipped)
        case _:
            yield from read_docs(path, nlp.vocab)
