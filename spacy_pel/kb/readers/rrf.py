"""The tables of a UMLS release: rows of `META/*.RRF`, plain or gzipped, checked and in the order of their CUIs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from ...errors import PelError
from ...files.lines import decoded, numbered
from ..entity import NIL
from .faults import Faults

SORTED_AT_ONCE = 500_000  # lines, about 150 MB of MRCONSO

Line = tuple[int, bytes]
Row = list[str]


class Table:
    """One table of a release.

    Attributes:
        name: Of the file, without its suffix.
        columns: Their names, in order.
    """

    def __init__(self, name: str, columns: str) -> None:
        """A table. columns: with spaces between them."""
        self.name = name
        self.columns = columns.split()

    def at(self, *names: str) -> itemgetter:
        """Picks the columns of these names from a row."""
        return itemgetter(*(self.columns.index(name) for name in names))

    def path(self, meta: Path) -> Path | None:
        """The file in the folder `meta`, if there is one."""
        paths = (meta / f"{self.name}.RRF", meta / f"{self.name}.RRF.gz")
        return next((path for path in paths if path.is_file()), None)

    def required(self, meta: Path) -> Path:
        """The file in the folder `meta`.

        Raises:
            PelError: There is none.
        """
        if path := self.path(meta):
            return path
        raise PelError(
            f"{meta / self.name}.RRF: is missing, as is {self.name}.RRF.gz; give the META folder of a UMLS release."
        )

    def rows(self, faults: Faults, take: Callable[[Row], object] = lambda row: None) -> Iterator[Row]:
        """Every row in the order of the file. One that has another number of columns, an empty first one or a NUL
        character, that is not UTF-8, or for which `take` raises a PelError is a fault. So it is in the next pass.
        """
        return self._parsed(faults, numbered(faults.path), take)

    def by_cui(self, faults: Faults) -> Iterator[tuple[str, list[Row]]]:
        """(CUI, its rows in the order of the file), in ascending order of the CUIs.

        A release is sorted by CUI and is streamed as it is. That is checked in a first pass over the file; one in any
        other order is sorted in pieces, on the disk, in the folder for temporary files.
        """
        ordered = all(_cui(line) <= _cui(after) for line, after in pairwise(numbered(faults.path)))
        lines = numbered(faults.path) if ordered else _sorted_lines(faults.path)
        for cui, group in groupby(self._parsed(faults, lines), key=itemgetter(0)):
            yield cui, list(group)

    def _parsed(
        self, faults: Faults, lines: Iterator[Line], take: Callable[[Row], object] = lambda row: None
    ) -> Iterator[Row]:
        def parse(number: int, line: bytes) -> Row:
            row = self._row(line)
            take(row)
            return row

        return faults.parsed((line for line in lines if line[0] not in faults.numbers), parse)

    def _row(self, line: bytes) -> Row:
        row = decoded(line).rstrip("\r\n").split("|")
        if len(row) != len(self.columns) + 1:  # a row ends with "|"
            self._check_width(row)
        if row[0] in ("", NIL):
            raise PelError(f"the row has no {self.columns[0]}; mend or remove it")
        if b"\0" in line:
            raise PelError("the row has a NUL character; remove it")
        return row

    def _check_width(self, row: Row) -> None:
        if len(row) != len(self.columns):
            raise PelError(
                f'the row has {len(row) - (row[-1] == "")} columns, {self.name} has {len(self.columns)}, each with "|" '
                "after it; mend the row or copy the file again"
            )


MRCONSO = Table("MRCONSO", "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF")
MRSTY = Table("MRSTY", "CUI TUI STN STY ATUI CVF")
MRDEF = Table("MRDEF", "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF")
MRRANK = Table("MRRANK", "RANK SAB TTY SUPPRESS")
MRCUI = Table("MRCUI", "CUI1 VER REL RELA MAPREASON CUI2 MAPIN")


def _cui(line: Line) -> bytes:
    return line[1].partition(b"|")[0]


def _sorted_lines(path: Path) -> Iterator[Line]:
    with TemporaryDirectory() as folder:
        lines = numbered(path)
        pieces: list[Path] = []
        while piece := sorted(islice(lines, SORTED_AT_ONCE), key=_cui):
            pieces.append(Path(folder) / str(len(pieces)))
            with pieces[-1].open("wb") as file:
                file.writelines(b"%d|%s\n" % (number, line.rstrip(b"\r\n")) for number, line in piece)
        yield from heapq.merge(*map(_piece, pieces), key=_cui)


def _piece(path: Path) -> Iterator[Line]:
    with path.open("rb") as file:
        for line in file:
            number, _, rest = line.partition(b"|")
            yield int(number), rest
