"""How commands print. All that they show may quote a KB or a corpus, and goes through `visible`."""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

import typer
from wasabi import Printer

from ..visible import visible


class VisiblePrinter(Printer):
    """wasabi's printer, for texts of others."""

    def text(self, title: Any = "", text: Any = "", *args: Any, **kwargs: Any) -> Any:
        """Print a message. `good`, `warn`, `info` and `fail` do, too."""
        return super().text(visible(str(title), keep="\n"), visible(str(text), keep="\n"), *args, **kwargs)

    def table(self, data: Collection | dict, **kwargs: Any) -> Any:
        """Print a table, every cell on one line."""
        rows = data.items() if isinstance(data, dict) else data
        if header := kwargs.get("header"):
            kwargs["header"] = _cells(header)
        return super().table([_cells(row) for row in rows], **kwargs)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines as they are, but for what a terminal would obey."""
    typer.echo(visible(text, keep="\n\t"), err=err)


def escape_what_stdout_lacks() -> None:
    """Characters that the encoding of stdout lacks are printed as their escapes, and are no error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write out what was printed, where there is a stdout.

    Raises:
        BrokenPipeError: Nobody reads it.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if sys.platform == "win32" and error.errno == errno.EINVAL:  # what Windows calls it
            raise BrokenPipeError(errno.EPIPE, "Broken pipe") from error
        raise


def output_closed() -> bool:
    """Whether stdout is a pipe that nobody reads any more; where the system does not tell, as Windows, it is."""
    if sys.stdout is None:
        return False
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    with suppress(OSError, ValueError):  # stdout is no file of the system, or closed
        poll.register(sys.stdout, 0)  # its end and its errors are told in any case
    return bool(poll.poll(0))


def shown(value: float | None) -> str:
    """A measure: a count as a whole number, others with as many places as tell something, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _cells(row: Iterable[Any]) -> list[str]:
    return [visible(str(cell)) for cell in row]


msg = VisiblePrinter()
