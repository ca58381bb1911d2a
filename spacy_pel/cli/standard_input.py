"""What a command reads where its argument is `-`."""

from __future__ import annotations

import sys
from typing import BinaryIO

from ..errors import PelError


def standard_input() -> BinaryIO:
    """The bytes of standard input.

    Raises:
        PelError: It is closed.
    """
    if sys.stdin is None:
        raise PelError("-: standard input is closed; name a file")
    return sys.stdin.buffer
