"""Parquet, where its package is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import PelError


def require_parquet() -> tuple[Any, Any]:
    """pyarrow and its module for Parquet.

    Raises:
        PelError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PelError('Parquet needs the package pyarrow; run `pip install "spacy-pel[parquet]"`.') from error
    return pyarrow, pyarrow.parquet


def parquet_schema(path: Path, remedy: str) -> Any:
    """The Arrow schema of the file at `path`.

    Raises:
        PelError: It is no whole Parquet file; with `remedy`.
    """
    with _opened(path, remedy) as file:
        return file.schema_arrow


def parquet_batches(path: Path, remedy: str, *, rows: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Stream the file at `path`.

    Args:
        path: Of the file.
        remedy: What the message of an error says to do.
        rows: Of a batch.
        columns: To read; None: all.

    Yields:
        Record batches.

    Raises:
        PelError: It is no whole Parquet file.
    """
    with _opened(path, remedy) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)


@contextmanager
def _opened(path: Path, remedy: str) -> Iterator[Any]:
    pyarrow, parquet = require_parquet()
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # of the disk; Arrow's own have no number
            raise
        raise PelError(f"{path}: is no Parquet that can be read ({error}); {remedy}") from error
