"""What every reader does with a record that is not right: it leaves the record out and says where it stands."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ...errors import PelError
from ...visible import visible

SHOWN = 5  # faults of a file that are named; the others are counted
MOST = 0.01  # share of the records of a file that may be left out
HOPELESS = 1000  # faults, and more than half of what was read: the rest is not read
LONGEST_MESSAGE = 400  # characters

Raw = TypeVar("Raw")
Parsed = TypeVar("Parsed")


class Partly(PelError):
    """A record of which only a part is right.

    Attributes:
        result: That part, if there is any.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class Faults:
    """The records of one file that are not right, or its lines.

    Attributes:
        path: The file.
        strict: The first fault is an error.
        good: Records that were right.
        bad: Records that were left out.
        numbers: Of the faults.
        first: What is said of the first one; "" without any.
    """

    def __init__(
        self, path: Path, skipped: Counter[str], *, strict: bool = False, unit: str = "records", most: float = MOST
    ) -> None:
        """No faults yet.

        Args:
            path: The file.
            skipped: Where the faults are counted too.
            strict: The first fault is an error.
            unit: What is left out.
            most: The share of them that may be left out.
        """
        self.path = path
        self.strict = strict
        self.good = self.bad = 0
        self.numbers: set[int] = set()
        self._skipped = skipped
        self._unit = unit
        self._most = most
        self.first = ""
        self._untold: list[str] = []
        self._told = 0

    def parsed(
        self, rows: Iterable[tuple[int, Raw]], parse: Callable[[int, Raw], Parsed], place: str = ":{}"
    ) -> Iterator[Parsed]:
        """`parse(number, row)` of every row for which it raises no PelError, and what a `Partly` holds.

        Args:
            rows: (line or record, row).
            parse: Reads a row.
            place: What stands behind the name of the file to say where the row is.

        Raises:
            PelError: As for `add` and `close`.
        """
        self.good = 0
        for number, row in rows:
            try:
                result = parse(number, row)
            except PelError as error:
                self.add(number, error, place=place)
                if isinstance(error, Partly) and error.result is not None:
                    yield error.result
                continue
            self.good += 1
            yield result
        self.close()

    def add(self, number: int, error: PelError, *, place: str = ":{}", count: int = 1) -> None:
        """Leave a record out.

        Args:
            number: Its line or record.
            error: What is wrong and what to do, without a full stop.
            place: What stands behind the name of the file to say where the record is.
            count: Records that it costs.

        Raises:
            PelError: `strict` is set, or it is plain that the file is in another format.
        """
        message = f"{self.path}{place.format(number)}: {shortened(str(error))}."
        if self.strict:
            raise PelError(message) from error
        self.numbers.add(number)
        self.first = self.first or message
        if self.bad < SHOWN:
            self._untold.append(message)
        self.bad += count
        self._skipped[f"{self._unit} that are not right"] += count
        if self.bad > max(HOPELESS, self.good):
            self.close()

    def close(self) -> None:
        """Warn of what was left out, at the end of the file.

        Raises:
            PelError: It is too much.
        """
        total = self.good + self.bad
        if self.bad > self._most * total:
            raise PelError(
                f"{self.first} Not right: {self.bad:,} of {total:,} {self._unit}. More than {100 * self._most:.0f} % "
                "is too much to leave out: mend the file, or get it again."
            )
        untold, self._untold = self._untold, []
        for message in untold:
            warnings.warn(visible(message), stacklevel=2)
        self._told += len(untold)
        if untold and self.bad > self._told:
            warnings.warn(visible(f"{self.path}: {self.bad:,} {self._unit} in all are not right"), stacklevel=2)


def shortened(text: str) -> str:
    """`text`, or the two ends of one that is too long for a message."""
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 2 :]}"
