"""The typer app behind `python -m spacy pel` and the decorator that adds a command to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from ..errors import PelError
from .printing import echo, escape_what_stdout_lacks, flush, output_closed

pel_app = typer.Typer(
    name="pel",
    help="Entity linking with a proxy-loss bi-encoder: build a KB, index it, tune, evaluate and link.",
    no_args_is_help=True,
)


def command(
    name: str, app: typer.Typer = pel_app, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as `spacy pel NAME`, or under another `app`; an error that a user can mend becomes one line
    on stderr, status 1. Where nobody reads any more what it prints, it ends without a word. options: those of typer."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            escape_what_stdout_lacks()
            try:
                result = function(*args, **kwargs)
                flush()
                return result
            except (PelError, OSError, ImportError) as error:
                if isinstance(error, BrokenPipeError) and output_closed():
                    raise  # click ends without a word
                echo(f"✘ {_said(error)}", err=True)
                raise typer.Exit(1) from error

        return app.command(name, **options)(run)

    return register


def _said(error: Exception) -> str:
    """What an error says; of one of the system, the file before the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"
    return str(error)
