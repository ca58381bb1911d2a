"""What a command reads: the format that the name of a file tells, and standard input where its argument is `-`."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from ..errors import PelError

STANDARD = Path("-")  # standard input or output


def format_of(source: Path, formats: type[Enum], of_standard: Enum) -> str:
    """The format that the name of a file tells, or that of standard input.

    Raises:
        PelError: The name tells none of the `formats`.
    """
    from ..files.lines import unpacked_suffix

    if source == STANDARD:
        return str(of_standard.value)
    suffix = unpacked_suffix(source).removeprefix(".")
    if suffix not in formats.__members__:
        *most, last = formats.__members__
        raise PelError(
            f"{source}: the name does not tell what is in it; say it with --format: {', '.join(most)} or {last}."
        )
    return suffix


def standard_input() -> BinaryIO:
    """The bytes of standard input.

    Raises:
        PelError: It is closed.
    """
    if sys.stdin is None:
        raise PelError("-: standard input is closed; name a file")
    return sys.stdin.buffer
