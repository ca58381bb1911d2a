"""Batches of a table as the engines hand them over: dicts of columns, pyarrow Tables, pandas DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import PelError


class Table(Protocol):
    """A batch of a table."""

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        ...

    def values(self, column: str) -> list[Any]:
        """A column as plain Python values, None where there is none."""
        ...

    def filled(
        self, kept: Sequence[str], links: dict[str, list], errors: dict[str, list], codes: Sequence[str] = ()
    ) -> Any:
        """A batch of the same type with the columns `kept`, one of links and one of errors, each under its name. codes:
        the vocabularies whose codes the links have."""
        ...


def table_of(batch: Any) -> Table:
    """A batch, whatever its type.

    Raises:
        PelError: It is none of a table.
    """
    pandas, arrow = (sys.modules.get(name) for name in ("pandas", "pyarrow"))  # who has made one has imported them
    if pandas is not None and isinstance(batch, pandas.DataFrame):
        return PandasTable(batch)
    if arrow is not None and isinstance(batch, arrow.Table | arrow.RecordBatch):
        return ArrowTable(batch)
    if isinstance(batch, Mapping):
        return ColumnsTable(batch)
    raise PelError(
        f"{type(batch).__name__} is no batch of a table: give a dict of columns, a pyarrow Table or a pandas DataFrame."
    )


class ColumnsTable:
    """A dict of columns, which are lists or numpy arrays."""

    def __init__(self, batch: Mapping[str, Any]) -> None:
        """Take a batch.

        Raises:
            PelError: A column is a text, or not as long as another.
        """
        self._batch = batch
        if texts := [name for name, column in batch.items() if isinstance(column, str | bytes)]:
            raise PelError(f"the column {texts[0]!r} of the batch is one text; give a list of them.")
        if len({len(column) for column in batch.values()}) > 1:
            lengths = ", ".join(f"{name!r} {len(column)}" for name, column in batch.items())
            raise PelError(f"the columns of the batch are not of one length: {lengths}.")

    @property
    def names(self) -> list[str]:
        return list(self._batch)

    def values(self, column: str) -> list[Any]:
        return [_plain(value) for value in self._batch[column]]

    def filled(
        self, kept: Sequence[str], links: dict[str, list], errors: dict[str, list], codes: Sequence[str] = ()
    ) -> dict[str, Any]:
        batch = {name: self._batch[name] for name in kept}
        as_arrays = any(isinstance(column, np.ndarray) for column in self._batch.values())
        return batch | {name: _array(new) if as_arrays else new for name, new in (links | errors).items()}


class PandasTable:
    """A pandas DataFrame."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    @property
    def names(self) -> list[str]:
        return list(self._batch.columns)

    def values(self, column: str) -> list[Any]:
        _check_single(self.names, [column])
        series = self._batch[column]
        return [None if missing else _plain(value) for value, missing in zip(series, series.isna(), strict=True)]

    def filled(
        self, kept: Sequence[str], links: dict[str, list], errors: dict[str, list], codes: Sequence[str] = ()
    ) -> Any:
        import pandas

        _check_single(self.names, kept)
        new = {
            name: pandas.Series(values, index=self._batch.index, dtype=object)
            for name, values in (links | errors).items()
        }
        return self._batch[list(kept)].assign(**new)


class ArrowTable:
    """A pyarrow Table or RecordBatch; a Table comes back."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    @property
    def names(self) -> list[str]:
        return self._batch.schema.names

    def values(self, column: str) -> list[Any]:
        _check_single(self.names, [column])
        return self._batch.column(column).to_pylist()

    def filled(
        self, kept: Sequence[str], links: dict[str, list], errors: dict[str, list], codes: Sequence[str] = ()
    ) -> Any:
        import pyarrow

        _check_single(self.names, kept)
        columns = {name: self._batch.column(name) for name in kept}
        columns |= {name: pyarrow.array(values, links_type(codes)) for name, values in links.items()}
        columns |= {name: pyarrow.array(values, pyarrow.string()) for name, values in errors.items()}
        return pyarrow.table(columns, metadata=self._batch.schema.metadata)


def links_type(codes: Sequence[str] = ()) -> Any:
    """The Arrow type of a column of links with the codes of the vocabularies `codes`."""
    import pyarrow

    text, number = pyarrow.string(), pyarrow.float64()
    link = {"start": pyarrow.int64(), "end": pyarrow.int64(), "text": text, "label": text, "kb_id": text}
    candidate = pyarrow.struct({"id": text, "score": number})
    link |= {"is_nil": pyarrow.bool_(), "kb_ents": pyarrow.list_(candidate), "kb_prob": number}
    if codes:
        link["codes"] = pyarrow.struct({vocabulary: pyarrow.list_(text) for vocabulary in codes})
    return pyarrow.list_(pyarrow.struct(link))


def as_column(ent: dict[str, Any]) -> dict[str, Any]:
    """A link with the fields that every link in a table has: a nested column has no pairs of a text and a number."""
    candidates = [{"id": id, "score": score} for id, score in ent["kb_ents"]]
    return {**ent, "kb_ents": candidates, "kb_prob": ent.get("kb_prob")}


def _check_single(names: Sequence[str], used: Sequence[str]) -> None:
    for name in used:
        if (count := names.count(name)) > 1:
            raise PelError(f"the batch has {count} columns {name!r}; rename one, or say which other columns to keep.")


def _array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _plain(value: Any) -> Any:
    """`value` without the types of numpy; None for a NaN."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
