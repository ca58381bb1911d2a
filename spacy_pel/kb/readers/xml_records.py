"""The records of a large XML file one by one, so that what is wrong in one does not spoil the next."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from operator import itemgetter
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError, XMLParser

from ...errors import PelError
from ...files.lines import LONGEST_LINE, opened
from .faults import Faults

CHUNK = 1 << 18  # bytes
ENCODING = re.compile(rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([\w.-]+)""")


def elements(faults: Faults, tags: Collection[str]) -> Iterator[tuple[int, Element]]:
    """(number, element) of every element of the file that has one of these tags. One that is not XML is a fault.

    Raises:
        PelError: The file breaks off, is in an encoding that is not known, no record ends within 16 MB, or there is no
            record, and no XML either.
    """
    names = "|".join(tags).encode()
    end = re.compile(rb"</(?:%s)\s*>" % names)
    parts = _parts(faults.path, re.compile(rb"(?=<(?:%s)[\s>])" % names))
    line, text = next(parts)  # what stands before the first record
    declared = ENCODING.search(text)
    encoding = declared[1].decode() if declared else None
    number = after = 0
    for number, (line, text) in enumerate(filter(itemgetter(1), parts), start=1):
        closed = end.search(text)
        after = closed.end() if closed else len(text)
        try:
            element = ElementTree.fromstring(text[:after], XMLParser(encoding=encoding))
        except ParseError as error:
            faults.add(line + error.position[0] - 1, _complaint(error.position[1], error))
        except (LookupError, ValueError) as error:
            raise PelError(f"{faults.path}:1: {error}; save the file as UTF-8.") from error
        else:
            yield number, element
    if number and b"</" not in text[after:]:
        last = line + text.count(b"\n")
        column = len(text) - text.rfind(b"\n") - 1
        raise PelError(f"{faults.path}:{last}: {_complaint(column, 'the file breaks off there')}.")
    if not number:
        _check(faults.path, text)


def _parts(path: Path, begin: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    """(line, bytes) of what stands before the first record, then of every record with what stands behind it."""
    line, rest = 1, b""
    with opened(path) as file:
        while chunk := file.read(CHUNK):
            *whole, rest = begin.split(rest + chunk)
            for text in whole:
                yield line, text
                line += text.count(b"\n")
            if len(rest) > LONGEST_LINE:
                raise PelError(
                    f"{path}:{line}: no record ends within {LONGEST_LINE >> 20} MB from here; give NLM's desc*.xml or "
                    "supp*.xml."
                )
    yield line, rest


def _check(path: Path, text: bytes) -> None:
    try:
        ElementTree.fromstring(text)
    except ParseError as error:
        line, column = error.position
        raise PelError(f"{path}:{line}: {_complaint(column, error)}.") from error


def _complaint(column: int, error: object) -> PelError:
    return PelError(f"is not XML at column {column} ({error}); download the file again")
