"""Parquet, where its package is installed."""

from __future__ import annotations

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
