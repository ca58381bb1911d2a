"""What the value of a setting may be: each check raises a `PelError` that names the place, the key and what to give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

from .errors import PelError

MOST = 2**31 - 1  # what every library below can count to
LONGEST_SHOWN = 80


def check_count(
    where: str, key: str, value: Any, *, least: int = 0, most: int = MOST, optional: bool = False, hint: str = ""
) -> None:
    """Check that `value` is a whole number from `least` to `most`, or None where it is `optional`. hint: what else is
    said of what it may be.

    Raises:
        PelError: It is not.
    """
    if (optional and value is None) or (type(value) is int and least <= value <= most):
        return
    limit = f" and at most {most:,}" if most < MOST or (type(value) is int and value > most) else ""
    is_foreign = isinstance(value, Integral) and type(value) not in (int, bool)
    kind = f"an int and no {type(value).__name__}" if is_foreign else "a whole number"
    raise refused(where, key, value, f"it must be at least {least}{limit}, {kind}{_or_none(optional)}{hint}")


def check_number(
    where: str,
    key: str,
    value: Any,
    *,
    least: float | None = None,
    over: float | None = None,
    most: float | None = None,
    optional: bool = False,
    hint: str = "",
) -> None:
    """Check that `value` is a finite number, at least `least`, more than `over` and at most `most`. hint: see
    `check_count`.

    Raises:
        PelError: It is not.
    """
    if (optional and value is None) or is_number(value, least=least, over=over, most=most):
        return
    limits = [("at least", least), ("more than", over), ("at most", most)]
    limit = " and ".join(f"{words} {bound:g}" for words, bound in limits if bound is not None)
    raise refused(where, key, value, f"it must be a finite number{limit and ', '}{limit}{_or_none(optional)}{hint}")


def is_number(value: Any, *, least: float | None = None, over: float | None = None, most: float | None = None) -> bool:
    """Say whether `value` is a finite number within these bounds. True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return (
        isfinite(number)
        and (least is None or number >= least)
        and (over is None or number > over)
        and (most is None or number <= most)
    )


def plain(value: Any) -> Any:
    """`value`, or where it is a number of another library, such as NumPy's, the float that it is: a setting is written
    as JSON."""
    return value if type(value) in (int, float) or not is_number(value) else float(value)


def check_flag(where: str, key: str, value: Any, *, optional: bool = False) -> None:
    """Check that `value` is True or False.

    Raises:
        PelError: It is not.
    """
    if not (isinstance(value, bool) or (optional and value is None)):
        raise refused(where, key, value, f"make it True or False{_or_none(optional)}")


def check_choice(where: str, key: str, value: Any, choices: Collection[str]) -> None:
    """Check that `value` is one of `choices`.

    Raises:
        PelError: It is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise PelError(f"{where}: {key} is {shown(value)}; choose one of {', '.join(choices)}.")


def check_text(where: str, key: str, value: Any, what: str, *, optional: bool = False) -> None:
    """Check that `value` is a text, which is `what`.

    Raises:
        PelError: It is not.
    """
    if not (isinstance(value, str) or (optional and value is None)):
        raise refused(where, key, value, f"{what}{_or_none(optional)}")


def text_list(where: str, key: str, values: Any) -> list[str]:
    """`values` as a list of texts. One text alone is refused: it would be read letter by letter.

    Raises:
        PelError: They are no texts in a list.
    """
    is_list = isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray)
    if not is_list or not all(isinstance(value, str) for value in values):
        example = values if isinstance(values, str) else "…"
        raise refused(where, key, values, f'make it a list of texts, such as ["{example}"]')
    return list(values)


def check_mapping(where: str, key: str, value: Any, shape: str) -> None:
    """Check that `value` is a dict with texts as keys, or None. shape: how it should look.

    Raises:
        PelError: It is not.
    """
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(one, str) for one in value)):
        raise refused(where, key, value, f"make it {shape}")


def refused(where: str, key: str, value: Any, advice: str) -> PelError:
    """The error of a value that a setting cannot have."""
    return PelError(f"{where}: {key} = {shown(value)}; {advice}.")


def shown(value: Any) -> str:
    """`value` as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def named(value: Any) -> str:
    """`value` as a message shows it, and its type."""
    return f"{shown(value)} ({type(value).__name__})"


def _or_none(optional: bool) -> str:
    return ", or None" if optional else ""
