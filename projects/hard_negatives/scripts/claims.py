"""What Zhang & Stratos (2021) found, held against what was measured here."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from numpy import mean

POINTS = {"≫": 0.05, ">": 0.0, "≥": 0.0, "≈": 0.015}  # by how much one is ahead at least, or at most of "≈"
CLOSE, SEEDS = 0.02, 3  # a smaller difference needs so many seeds
OPEN = "open"


class Claim(NamedTuple):
    """That what has the key `first` is ahead of what has the key `second`, by a `sign` of `POINTS`."""

    first: Hashable
    sign: str
    second: Hashable


def table_of_claims(head: str, claims: Mapping[str, Claim], found: Mapping[Hashable, Sequence[float]]) -> Iterable[str]:
    """Lines of Markdown: each claim, as it is called, beside its verdict. found: the values of each key, over seeds."""
    yield from (f"| {head} | here |", "| --- | --- |")
    yield from (f"| {name} | {verdict(found, *claim)} |" for name, claim in claims.items())


def verdict(found: Mapping[Hashable, Sequence[float]], first: Hashable, sign: str, second: Hashable) -> str:
    """Whether a claim held; "open" where a difference is too small for so few seeds, "–" where it was not measured."""
    if not (found.get(first) and found.get(second)):
        return "–"
    ahead, seeds = float(mean(found[first]) - mean(found[second])), min(len(found[first]), len(found[second]))
    held = abs(ahead) <= POINTS[sign] if sign == "≈" else ahead >= POINTS[sign] and (sign == "≥" or ahead > 0)
    is_open = sign != "≈" and seeds < SEEDS and abs(ahead - POINTS[sign]) < CLOSE
    said = OPEN if is_open else "held" if held else "did not"
    return f"{said}: {100 * ahead:+.1f} points, {'one seed' if seeds == 1 else f'{seeds} seeds'}"
