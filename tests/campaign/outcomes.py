"""What came of many tries: fine, refused with an error of ours or of spaCy's, broken, or hung."""

from __future__ import annotations

import random
import signal
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from campaign import SEED, print_table

from spacy_pel.errors import PelError

OUTCOMES = ("fine", "refused", "broken", "hung")
SECONDS = 30  # a try that takes longer hangs
KEPT = 3  # of what is broken


class Outcomes:
    """Counts the outcomes of tries, by what was tried.

    Attributes:
        allowed: Errors beside `PelError` that say to a user what is wrong, such as those of spaCy's for a config.
    """

    def __init__(self, *allowed: type[Exception]) -> None:
        self.allowed = (PelError, *allowed)
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._bad: list[str] = []

    def attempt(self, what: str, number: int, act: Callable[[random.Random], Any]) -> None:
        """Call `act` with the randomness of try `number` of `what`."""
        try:
            with _limited():
                act(random.Random(f"{SEED} {what} {number}"))
        except self.allowed:
            outcome = "refused"
        except Exception as error:
            outcome = "hung" if isinstance(error, TimeoutError) else "broken"
            self._bad.append(f"{what}, try {number}, {outcome}:\n{traceback.format_exc(limit=-6)}")
        else:
            outcome = "fine"
        self._counts[what][outcome] += 1

    def check(self) -> None:
        """Print the table, and fail where a try was broken or hung."""
        rows = [(what, counts.total(), *(counts[o] for o in OUTCOMES)) for what, counts in self._counts.items()]
        print_table(("what", "tries", *OUTCOMES), rows)
        assert not self._bad, f"{len(self._bad)} are broken:\n" + "\n".join(self._bad[:KEPT])


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


ODD = [
    *(b"-1", b"0", b"99999999", b"9" * 30, b"9" * 5000, b"1e309", b"NaN", b"Infinity", b"null", b"true", b"[]", b"{}"),
    *(b"\t", b"|", b"\n", b"\r", b"\r\n", b"\n\n", b'"', b"'", b",", b"\\", b"\\ud800", b"\\u0000", b"\0", b"\x1b[2J"),
    *(b"\xff", b"\xef\xbb\xbf", b"\xc3", b"<", b"&", b"&lt;", b"]]>", b"<!--", b"[Term]\n", b"id:", b"|t|", b"|a|"),
    *(b"x" * 20_000, b"(" * 20_000, b"[" * 20_000, b"{" * 2_000, b'"' * 5_000, b"<a>" * 5_000, b"http://" * 3_000),
    *(
        text.encode()
        for text in ("١٢", "\u200b" * 3_000, "\u202e", "é", "e\u0301", "👩‍👩‍👧", "\u2028", "\x85", "İ", "ﬁ")
    ),
    *(b"NIL", b"A|B", b" ", b"\xc2\xa0", b"1_000", b"0x10", b"+5", b"-0", b"1.0", b"D001241"),
]


def mutated(rng: random.Random, source: bytes, separators: bytes = b"\t|,") -> bytes:
    """`source` with faults: bytes flipped, odd pieces put in, cut out or doubled, fields replaced, its end gone."""
    data = bytearray(source)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 5])):
        place, kind = rng.randrange(len(data) + 1), rng.random()
        if kind < 0.3 and place < len(data):
            data[place] = rng.randrange(256)
        elif kind < 0.45:
            data[place:place] = rng.choice(ODD)
        elif kind < 0.6:
            del data[place : place + rng.randrange(20)]
        elif kind < 0.7:
            data[place:place] = data[place : place + rng.randrange(200)]
        elif kind < 0.72:
            del data[place:]
        else:
            lines = bytes(data).split(b"\n")
            number, mark = rng.randrange(len(lines)), bytes([rng.choice(separators)])
            fields = lines[number].split(mark)
            fields[rng.randrange(len(fields))] = rng.choice(ODD)
            lines[number] = mark.join(fields)
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
