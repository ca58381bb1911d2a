"""What Zhang & Stratos (2021) found, held against what was measured here."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from numpy import mean, sqrt, var

POINTS = {"≫": 0.05, ">": 0.0, "≥": 0.0, "≈": 0.015}  # by how much one is ahead at least, or at most of "≈"
CLOSE, SEEDS = 0.02, 3  # a smaller difference needs so many seeds
ERRORS = 2  # standard errors over the seeds that a difference has to be at least
OPEN = "open"


class Claim(NamedTuple):
    """That what has the key `first` is ahead of what has the key `second`, by a `sign` of `POINTS`."""

    first: Hashable
    sign: str
    second: Hashable


def table_of_claims(head: str, claims: Mapping[str, Claim], found: Mapping[Hashable, Sequence[float]]) -> str:
    """As Markdown each claim, as it is called, beside its verdict. found: the values of each key, over seeds."""
    rows = [(head, "here"), ("---", "---"), *((name, verdict(found, *claim)) for name, claim in claims.items())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def verdict(found: Mapping[Hashable, Sequence[float]], first: Hashable, sign: str, second: Hashable) -> str:
    """Whether a claim held; "open" where a difference is too small for so few seeds, or for how they differ; "–" where
    it was not measured."""
    if not (found.get(first) and found.get(second)):
        return "–"
    ahead, seeds = _ahead(found[first], found[second]), min(len(found[first]), len(found[second]))
    held = abs(ahead) <= POINTS[sign] if sign == "≈" else ahead >= POINTS[sign] and (sign == "≥" or ahead > 0)
    is_sure = sign == "≈" or (held and sign == "≥" and seeds >= SEEDS)
    is_open = not is_sure and abs(ahead - POINTS[sign]) < _unsure(found[first], found[second])
    said = OPEN if is_open else "held" if held else "did not"
    return f"{said}: {100 * ahead:+.1f} points, {'one seed' if seeds == 1 else f'{seeds} seeds'}"


def _ahead(first: Sequence[float], second: Sequence[float]) -> float:
    """The difference of the means of two samples, without the noise of floats, which would decide at a bound."""
    return round(float(mean(first) - mean(second)), 9) + 0.0  # and never -0.0


def _unsure(first: Sequence[float], second: Sequence[float]) -> float:
    """How far the difference of the means of two samples has to be from a bound, to tell on which side it is."""
    if min(len(first), len(second)) < SEEDS:
        return CLOSE
    standard_error = float(sqrt(sum(var(own, ddof=1) / len(own) for own in (first, second))))
    return ERRORS * standard_error
